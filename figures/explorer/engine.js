// The analyzer: its WebAssembly, and its functions with JavaScript's types. It computes every number.
class Engine {
  static async load(base64) {
    const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
    const module = await WebAssembly.compile(await new Response(unpacked).arrayBuffer());
    // The C library asks for an environment, which stays empty.
    const imports = {};
    for (const { module: room, name } of WebAssembly.Module.imports(module)) {
      (imports[room] ??= {})[name] = () => 0;
    }
    const { exports } = await WebAssembly.instantiate(module, imports);
    exports._initialize?.();
    return new Engine(exports);
  }

  constructor(exports) {
    this.exports = exports;
    this.rules = Array.from({ length: exports.RuleCount() }, (_, index) => {
      exports.RuleTakes(index);
      const [horizon, coefficients] = this.values(2);
      return {
        name: this.text(exports.RuleName(index)),
        title: this.text(exports.RuleTitle(index)),
        equation: this.text(exports.RuleEquation(index)),
        takesHorizon: horizon === 1,
        takesCoefficients: coefficients === 1,
      };
    });
    this.kinds = Array.from({ length: exports.ScheduleKindCount() }, (_, index) => ({
      name: this.text(exports.ScheduleKindName(index)),
      title: this.text(exports.ScheduleKindTitle(index)),
    }));
  }

  /** Stages of each network whose name matches. */
  networks(pattern) {
    return Array.from({ length: this.exports.NetworkCount() }, (_, index) => {
      const name = this.text(this.exports.NetworkName(index));
      return pattern.test(name) ? [{ name, stages: this.call('NetworkStages', index)[0] }] : [];
    }).flat();
  }

  text(address) {
    const bytes = new Uint8Array(this.exports.memory.buffer, address);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  // Memory may have moved, so that a view is made for each reading.
  values(count) {
    return Array.from(new Float64Array(this.exports.memory.buffer, this.exports.Values(), count));
  }

  /** Values that a function leaves; throws the library's refusal. */
  call(name, ...parameters) {
    const count = this.exports[name](...parameters);
    if (count < 0) throw new Error(this.text(this.exports.ErrorText()));
    return this.values(count);
  }

  setRule(rule, delay, { horizon, a, b }) {
    this.call('SetRule', this.rules.findIndex(({ name }) => name === rule), delay,
      horizon ?? NaN, a ?? NaN, b ?? NaN);
  }

  /** ln |r_max|, (count, size) row-major, of rows of the map of size by size. */
  mapRows(size, first, count) {
    this.call('MapRows', AXES.gap.low, AXES.gap.high, size, first, count, AXES.rate.low,
      AXES.rate.high, size);
    return new Float32Array(this.exports.memory.buffer, this.exports.MapValues(), size * count);
  }

  point(momentum, rate) {
    const [radius, errorBound, halfLife, stable, a, b, horizon] = this.call('Point', momentum, rate);
    return { radius, errorBound, halfLife, stable: stable === 1, a, b, horizon };
  }

  margins(momentum, rate) {
    const [criticalRate, gain, phase, delay, crossover] = this.call('StabilityMargins', momentum, rate);
    return { criticalRate, gain, phase, delay, crossover };
  }

  best(condition) {
    const [halfLife, momentum, rate, limitHalfLife] = this.call('BestPoint', condition);
    return { halfLife, momentum, rate, limitHalfLife };
  }

  roots(momentum, rate) { return this.tuples(this.call('Roots', momentum, rate), 2); }
  trajectory(momentum, rate, updates) { return this.call('Trajectory', momentum, rate, updates); }
  impulse(momentum, updates) { return this.call('Impulse', momentum, updates); }
  bode(momentum, rate, points) { return this.tuples(this.call('Bode', momentum, rate, -4, points), 3); }

  schedule(kind, stages, microbatches, perUpdate) {
    const index = this.kinds.findIndex(({ name }) => name === kind);
    const all = this.call('Schedule', index, stages, microbatches, perUpdate);
    const [workers, slots, steps, utilisation] = all;
    const actions = this.tuples(all.slice(4 + 4 * stages), 6);
    const first = actions.reduce((least, [step]) => Math.min(least, step), Infinity);
    for (const action of actions) action[0] -= first;
    return { workers, slots, steps, utilisation, stages: this.tuples(all.slice(4, 4 + 4 * stages), 4), actions };
  }

  tuples(values, width) {
    return Array.from({ length: values.length / width }, (_, i) => values.slice(i * width, (i + 1) * width));
  }
}
