// The explainer: the numbers in its text, and six figures, each with a state of its own.
const MAP_SIZE = 192;
const CONDITION = 1000;   // where a figure has no slider for it
const COMPARED = ['sgdm', 'sc', 'lwp-v', 'lwp-w+sc'];
const NAMES = { sgdm: 'SGDM alone', sc: 'SC', 'lwp-v': 'LWP', 'lwp-w+sc': 'LWP + SC', limit: 'limit (dashed)' };

// The rules' colours are those of the figures, but for what is black or dark on paper.
const colourOfRule = (rule) => (rule === 'sgdm' ? colourOf('--ink') : THEME.rules[rule] ?? colourOf('--soft'));

const [DELAY, GAP, RATE] = ['delay', 'gap', 'rate'].map((wanted) => SLIDERS.find(({ key }) => key === wanted));
DELAY.high = 32;
const FAST = { ...RATE, low: -3, high: 0.5 };  // rates of a ball without momentum

/** What the program's commands print, by the names in its JSON. */
class Commands {
  constructor(engine) {
    this.engine = engine;
    this.found = {};
  }

  stability({ rule, delay, momentum, rate }) {
    this.engine.setRule(rule, delay, {});
    const { radius, halfLife } = this.engine.point(momentum, rate);
    return { spectral_radius: radius, half_life_updates: halfLife };
  }

  boundary({ rule, delay, momentum }) {
    this.engine.setRule(rule, delay, {});
    return { critical_rate: this.engine.margins(momentum, 1).criticalRate };
  }

  optimum({ rule, delay, condition }) {
    this.engine.setRule(rule, delay, {});
    const { halfLife, momentum, rate, limitHalfLife } = this.engine.best(condition);
    return { half_life_updates: halfLife, momentum, rate, limit_half_life_updates: limitHalfLife };
  }

  limit({ delay, condition }) {
    const { limit_half_life_updates: limit } = this.run('optimum', { rule: 'sgdm', delay, condition });
    return { half_life_updates: limit };
  }

  schedule({ kind, stages, microbatches }) {
    const { utilisation, stages: rows } = this.engine.schedule(kind, stages, microbatches, 0);
    return { utilisation, steady_delays: rows.map(([forward]) => forward) };
  }

  costs({ network }) {
    const [{ stages }] = this.engine.networks(new RegExp(`^${network}$`));
    return { stages: { length: stages } };
  }

  run(name, options) { return (this.found[name + JSON.stringify(options)] ??= this[name](options)); }
  known(name, options) { return this.found[name + JSON.stringify(options)]; }

  /** Fills <data data-from="command option=value …: field">, which says where its number is from. */
  fill(element) {
    const [command, field] = element.dataset.from.split(': ');
    const [name, ...words] = command.split(' ');
    const options = words.map((word) => word.split('='));
    const result = this.run(name, Object.fromEntries(options.map(([key, v]) => [key, isNaN(v) ? v : Number(v)])));
    const value = field.split('.').reduce((part, key) => part[key], result);
    element.value = String(value);
    element.textContent = 'percent' in element.dataset ? `${show(100 * value, 3)} %` : show(value, 3);
    element.title = ['batchless', name, ...options.map(([key, v]) => `--${key} ${v}`)].join(' ');
  }
}

class BallFigure extends MovingFigure {
  constructor(commands) {
    super('ball', commands, [DELAY, FAST, now('Update')], { delay: 4, rate: -0.58, now: 0, last: 0 });
    this.find();
    if (STILL) this.state.now = this.state.delay + 2;
    else this.play(true);
  }

  change(difference, settled) {
    super.change(difference, settled);
    if ('now' in difference || !settled || STILL) return;
    this.state.now = 0;
    if (!this.playing) this.play(true);
  }

  find() {
    const { state, engine } = this;
    engine.setRule('sgdm', state.delay, {});
    this.point = engine.point(0, rateOf(state.rate));
    state.last = Math.round(Math.min(400, Math.max(30, 8 * (state.delay + 1), this.point.stable ? 4 * this.point.halfLife : 0)));
    state.now = Math.min(state.now, state.last);
    this.weights = engine.trajectory(0, rateOf(state.rate), state.last + 1);
  }

  draw() {
    const { state, weights, point } = this;
    const update = Math.floor(state.now), old = Math.max(0, update - state.delay);
    const place = weights[update] + (state.now - update) * (weights[update + 1] - weights[update]);
    drawBall(this.first, weights, update, old, place);
    drawSeries(this.second, [
      { values: weights.slice(0, state.last + 1), colour: colourOf('--soft'), dash: [1, 3] },
      { values: weights.slice(0, update + 1) },
    ], 'weight w', state.delay ? [old, update] : [update]);
    fillValues(this.values, [
      ['stability', 'stable', point.stable, point.stable ? 'converges' : 'diverges', point.stable ? 'stable' : 'unstable'],
      ['half-life', 'half_life_updates', point.halfLife, point.stable ? `${show(point.halfLife, 3)} updates` : 'none'],
      ['largest stable rate', 'critical_rate', ...this.critical()],
    ]);
  }

  critical() {
    const { critical_rate: rate } = this.commands.run('boundary', { rule: 'sgdm', delay: this.state.delay, momentum: 0 });
    return [rate, show(rate, 3)];
  }
}

/** The parabola, the ball, and the hollow ball whose slope it follows. */
function drawBall(canvas, weights, update, old, place) {
  const context = prepare(canvas);
  const { clientWidth: width, clientHeight: height } = canvas;
  // The picture grows with the swing.
  const reach = 1.15 * Math.max(1, ...weights.slice(0, update + 2).map(Math.abs));
  const px = (w) => width / 2 + (w / reach) * (width / 2 - 14);
  const py = (w) => height - 26 - (w / reach) ** 2 * (height - 60);
  const line = (points, colour, thick, dash = []) => {
    context.beginPath();
    for (const [left, top] of points) context.lineTo(left, top);
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
  };
  const disc = (w, radius, colour, filled) => {
    circle(context, px(w), py(w) - 9, radius);
    context[filled ? 'fillStyle' : 'strokeStyle'] = colour;
    context.lineWidth = 2;
    context[filled ? 'fill' : 'stroke']();
  };
  line(Array.from({ length: 101 }, (_, i) => (i / 50 - 1) * reach).map((w) => [px(w), py(w)]), colourOf('--ink'), 1.5);
  for (let i = Math.max(0, update - 24); i < update; ++i) {
    context.globalAlpha = 0.35 * (1 - (update - i) / 25);
    disc(weights[i], 4, colourOf('--curve'), true);
  }
  context.globalAlpha = 1;
  const second = colourOf('--second');
  // The tangent where the slope is taken: its rise over a step of w.
  const seen = weights[old];
  const slope = (py(seen + 1e-3) - py(seen - 1e-3)) / (px(seen + 1e-3) - px(seen - 1e-3));
  const half = 34 / Math.hypot(1, slope);
  line([[px(seen) - half, py(seen) - half * slope], [px(seen) + half, py(seen) + half * slope]], second, 2.5);
  disc(seen, 9, second, false);
  disc(place, 8, colourOf('--curve'), true);
  // The step that follows from it.
  const to = px(place + weights[update + 1] - weights[update]), from = px(place), top = Math.max(12, py(place) - 28);
  if (Math.abs(to - from) > 2) {
    const head = Math.sign(to - from) * Math.min(6, Math.abs(to - from));
    line([[from, top], [to, top]], second, 2);
    line([[to - head, top - 4], [to, top], [to - head, top + 4]], second, 2);
  }
  context.font = '12px system-ui, sans-serif';
  context.fillStyle = colourOf('--soft');
  context.textAlign = 'center';
  context.fillText('weight w', width / 2, height - 6);
  canvas.setAttribute('aria-label', `Update ${update}: the ball is at ${show(weights[update], 3)}, the slope is taken at ${show(seen, 3)}`);
}

class RootsFigure extends Figure {
  constructor(commands) {
    super('roots', commands, [DELAY, FAST], { delay: 4, rate: -0.7 });
    this.critical = Array.from({ length: DELAY.high + 1 }, (_, delay) =>
      [delay, commands.run('boundary', { rule: 'sgdm', delay, momentum: 0 }).critical_rate]);
  }

  draw() {
    const { engine, state } = this;
    const rate = rateOf(state.rate);
    engine.setRule('sgdm', state.delay, {});
    const point = engine.point(0, rate);
    const roots = engine.roots(0, rate);
    drawRoots(this.first, roots, point.radius);
    const formula = Array.from({ length: 129 }, (_, i) => i / 4).map((delay) => [delay, 2 * Math.sin(Math.PI / (4 * delay + 2))]);
    drawCurves(this.second, [
      { points: formula, colour: colourOf('--soft') },
      { points: this.critical, dots: 2.5 },
      { points: [[state.delay, rate]], dots: 5, colour: colourOf('--second') },
    ], { low: 0, high: DELAY.high, label: 'delay D, updates' },
    { low: 1e-3, high: 4, log: true, label: 'largest stable rate ηλ' },
    `Largest stable rate over the delay, from ${show(this.critical[0][1], 3)} to ${show(this.critical.at(-1)[1], 3)}; the point is at delay ${state.delay}, rate ${show(rate, 3)}`);
    fillValues(this.values, [
      ['largest |z|', 'spectral_radius', point.radius, show(point.radius, 5), point.stable ? 'stable' : 'unstable'],
      ['half-life', 'half_life_updates', point.halfLife, point.stable ? `${show(point.halfLife, 3)} updates` : 'none'],
      ['largest stable rate', 'critical_rate', this.critical[state.delay][1], show(this.critical[state.delay][1], 3)],
    ]);
  }
}

class MapFigure extends Figure {
  constructor(commands) {
    super('momentum', commands, [DELAY, GAP, RATE], { delay: 1, gap: -1, rate: -1.5 });
    this.map = new RadiusMap(this.first);
    this.map.listen((point) => this.change(point));
    drawScale(this.root.querySelector('.scale'));
  }

  draw() {
    const { engine, state, map } = this;
    const best = this.commands.run('optimum', { rule: 'sgdm', delay: state.delay, condition: CONDITION });
    engine.setRule('sgdm', state.delay, {});
    if (this.shown !== state.delay) map.set(engine.mapRows(MAP_SIZE, 0, MAP_SIZE).slice(), MAP_SIZE);
    this.shown = state.delay;
    map.draw({ pinned: state, best: { rate: Math.log10(best.rate), gap: Math.log10(1 - best.momentum) } });
    const point = engine.point(momentumOf(state.gap), rateOf(state.rate));
    fillValues(this.values, [
      ['|r| at the circle', 'spectral_radius', point.radius, show(point.radius, 6), point.stable ? 'stable' : 'unstable'],
      ['half-life there', 'half_life_updates', point.halfLife, point.stable ? `${show(point.halfLife, 3)} updates` : 'none'],
      [`best for κ = ${CONDITION}`, 'best_half_life_updates', best.half_life_updates, `${show(best.half_life_updates, 4)} updates`],
      ['its momentum', 'best_momentum', best.momentum, show(best.momentum, 3)],
    ]);
    this.first.setAttribute('aria-label', `Map of the spectral radius at delay ${state.delay}; at momentum ${show(momentumOf(state.gap), 5)} and rate ${show(rateOf(state.rate), 3)} it is ${show(point.radius)}`);
  }
}

class ResponseFigure extends Figure {
  constructor(commands) {
    super('response', commands, [
      { ...DELAY, low: 1 },
      { key: 'momentum', label: 'Momentum m', low: 0, high: 0.99, step: 0.01, text: (v) => show(v, 2) },
    ], { delay: 6, momentum: 0.9 });
  }

  draw() {
    const { engine, state } = this;
    const updates = 4 * (state.delay + 1) + 16;
    const of = (rule, delay) => {
      engine.setRule(rule, delay, {});
      return engine.impulse(state.momentum, updates);
    };
    const [undelayed, late, repaired] = [of('sgdm', 0), of('sgdm', state.delay), of('sc', state.delay)];
    const { a, b } = engine.point(state.momentum, 1);
    drawSeries(this.first, [
      { values: undelayed, colour: colourOf('--soft'), dash: [5, 4] },
      { values: late, colour: colourOfRule('sgdm') },
      { values: repaired, colour: colourOfRule('sc') },
      { values: repaired, colour: colourOfRule('sc'), dots: 2.5 },
    ], 'weight / η', [state.delay]);
    const arrival = state.delay + 1;
    fillValues(this.values, [
      ['a, b', 'coefficients', [a, b].join(' '), [a, b].map((v) => show(v, 3)).join(', ')],
      ...[['no delay', 'undelayed', undelayed], ['delayed', 'late', late], ['with SC', 'repaired', repaired]].map(
        ([label, name, values]) => [`${label}, update ${arrival}`, name, values[arrival], show(values[arrival], 4)]),
    ]);
  }
}

/** Best half-lives of the compared rules at `points` of { delay, condition }, and the limit. */
function* bestOf(commands, points, found) {
  for (const [x, where] of points) {
    for (const rule of COMPARED) {
      const best = commands.run('optimum', { rule, ...where });
      found[rule].push([x, best.half_life_updates]);
      if (rule === 'sgdm') found.limit.push([x, best.limit_half_life_updates]);
      yield;
    }
  }
}

/** One with the compared rules' best half-lives in its last canvas and in its list of values. */
class Comparison {
  constructor(figure, xOf) {
    Object.assign(this, { figure, xOf });
    this.background = new Background();
    this.atMark = new Background();
    const legend = figure.root.querySelector('.rules');
    legend.replaceChildren(...[...COMPARED, 'limit'].map((rule) => {
      const item = document.createElement('span');
      item.innerHTML = `<i data-rule="${rule}"></i>${NAMES[rule]}`;
      return item;
    }));
  }

  start(points) {
    this.found = Object.fromEntries([...COMPARED, 'limit'].map((rule) => [rule, []]));
    this.done = false;
    this.background.start(bestOf(this.figure.commands, points, this.found), (done) => {
      this.done = done;
      this.figure.redraw();
    });
  }

  draw(canvas, x, y, at, where) {
    const { commands } = this.figure;
    const curves = Object.entries(this.found).map(([rule, points]) =>
      ({ points, colour: colourOfRule(rule), dash: rule === 'limit' ? [5, 4] : [] }));
    const mark = { points: [[at, y.low], [at, y.high]], colour: colourOf('--soft'), dash: [4, 3] };
    drawCurves(canvas, [mark, ...curves], { ...x, log: true }, { ...y, log: true, label: 'best half-life, updates' },
      `Best half-life over the ${x.label}`);
    const best = COMPARED.map((rule) => commands.known('optimum', { rule, ...where }));
    const sought = JSON.stringify(where);
    if (best.includes(undefined) && this.sought !== sought) {
      this.sought = sought;
      const found = Object.fromEntries(Object.keys(this.found).map((rule) => [rule, []]));
      this.atMark.start(bestOf(commands, [[0, where]], found), () => this.figure.redraw());
    }
    const row = (rule, value) => [NAMES[rule], rule, value, value ? `${show(value, 4)} updates` : '…'];
    return [
      ...COMPARED.map((rule, index) => row(rule, best[index]?.half_life_updates)),
      row('limit', best[0]?.limit_half_life_updates),
    ];
  }
}

class ConditionsFigure extends Figure {
  constructor(commands) {
    super('conditions', commands, [
      { ...DELAY, low: 1 },
      { key: 'condition', label: 'Condition number κ', low: 1, high: 5, step: 0.5, toSlider: Math.log10,
        fromSlider: (v) => 10 ** v, text: (v) => show(v, 3) },
    ], { delay: 4, condition: CONDITION });
    this.comparison = new Comparison(this);
    this.start();
  }

  change(difference) {
    super.change(difference);
    if ('delay' in difference) this.start();
  }

  start() {
    const points = Array.from({ length: 9 }, (_, i) => 10 ** (1 + i / 2));
    this.comparison.start(points.map((condition) => [condition, { delay: this.state.delay, condition }]));
  }

  draw() {
    const { delay, condition } = this.state;
    const rows = this.comparison.draw(this.first, { low: 10, high: 1e5, label: 'condition number κ' }, { low: 1, high: 5e6 }, condition, { delay, condition });
    fillValues(this.values, rows);
  }
}

class PipelineFigure extends MovingFigure {
  constructor(commands) {
    const networks = commands.engine.networks(/^(resnet(20|32|44|56|110)|vgg\d\d)$/);
    const most = Math.max(...networks.map(({ stages }) => stages));
    super('pipeline', commands, [
      { key: 'stages', label: 'Stages S', low: 2, high: most, step: 1, text: String },
      { key: 'stage', label: 'Stage s', low: 0, step: 1, highOf: ({ stages }) => stages - 1, text: String },
      now('Step'),
    ], { stages: 5, stage: 1, now: 0, last: 0 });
    this.select = this.root.querySelector('select');
    fillSelect(this.select, [['', 'any'], ...networks.map(({ name, stages }) => [stages, `${name}: ${stages} stages`])]);
    this.select.addEventListener('change', () => { if (this.select.value) this.change({ stages: Number(this.select.value) }); });
    this.grid = new PipelineGrid();
    this.comparison = new Comparison(this);
    // Up to the first stage of the longest pipeline, evenly in the logarithm of D + 1.
    const farthest = 2 * (most - 1);
    this.delays = [...new Set(Array.from({ length: 11 }, (_, i) => Math.round((farthest + 1) ** (i / 10)) - 1))];
    this.comparison.start(this.delays.map((delay) => [delay + 1, { delay, condition: CONDITION }]));
  }

  find() {
    const { state, engine } = this;
    if (this.schedule?.stages.length === state.stages) return;
    // The sample that is followed is the first to meet every stage's full delay.
    this.sample = 2 * (state.stages - 1);
    this.schedule = engine.schedule('pb', state.stages, this.sample + 1, 0);
    state.stage = Math.min(state.stage, state.stages - 1);
    const whole = state.now >= state.last;
    state.last = this.schedule.steps;
    if (whole || state.now > state.last) state.now = state.last;
  }

  draw() {
    const { state, schedule } = this;
    const option = [...this.select.options].find(({ value }) => value === String(state.stages));
    this.select.value = option ? option.value : '';
    const delay = schedule.stages[state.stage][0];
    const between = this.drawGrid();
    const rows = this.comparison.draw(this.second, { low: 1, high: this.delays.at(-1) + 1, label: 'D + 1, updates' },
      { low: 1, high: 5e5 }, delay + 1, { delay, condition: CONDITION });
    fillValues(this.values, [
      ['delay of the stage', 'delay', delay, DELAY.text(delay)],
      ['updates counted', 'between', between, String(between)],
      ...rows,
    ]);
    this.first.setAttribute('aria-label', `${state.stages} stages over ${schedule.steps} steps of pipelined backpropagation. Between the forward and the backward of sample ${this.sample} at stage ${state.stage} lie ${between} updates`);
  }

  /** Returns the number of updates of the chosen stage between the sample's forward and backward. */
  drawGrid() {
    const { state, schedule, sample, first: canvas } = this;
    const context = prepare(canvas);
    const box = boxOf(canvas);
    const { grid } = this;
    grid.draw(canvas, context, box, schedule, state.now, 'stage');
    const { px, py, wide, row } = grid;
    const passed = schedule.actions.filter(([step]) => step < state.now);
    for (const action of passed) {
      if (action[4] === sample && action[3] !== UPDATE) grid.cell(context, action, 2);
    }
    const own = schedule.actions.filter(([, , stage]) => stage === state.stage);
    const [begin, end] = [0, 1].map((code) => own.find(([, , , kind, number]) => kind === code && number === sample)[0]);
    const updates = own.filter(([step, , , kind]) => kind === UPDATE && step >= begin && step < end);
    for (const action of updates) grid.update(context, action);
    context.strokeStyle = colourOf('--ink');
    context.lineWidth = 1.5;
    context.strokeRect(px(begin), py(state.stage), px(end + 1) - px(begin), Math.max(2, row));
    if (wide >= 16 && row >= 30) {
      textStyle(context, 'center');
      for (const [step, worker, , code, number] of passed) {
        if (code === UPDATE) continue;
        context.fillStyle = number === sample && code === 0 ? '#fff' : number === sample ? '#000' : colourOf('--ink');
        context.fillText(number, px(step) + wide / 2, py(worker) + (code ? 0.75 : 0.25) * row);
      }
    }
    return updates.length;
  }
}

Engine.load(WASM).then(
  (engine) => {
    const commands = new Commands(engine);
    const figures = [BallFigure, RootsFigure, MapFigure, ResponseFigure, ConditionsFigure, PipelineFigure].map((Kind) => new Kind(commands));
    const page = { engine, figures, filled: false };
    globalThis.explainer = page;
    const numbers = function* () {
      for (const element of document.querySelectorAll('data[data-from]')) { commands.fill(element); yield; }
    };
    new Background().start(numbers(), (done) => { page.filled = done; });
    const redraw = () => {
      for (const mark of document.querySelectorAll('[data-rule]')) mark.style.background = colourOfRule(mark.dataset.rule);
      figures.forEach((figure) => figure.redraw());
    };
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
    new ResizeObserver(redraw).observe(document.body);
  },
  (failure) => { byId('error').textContent = `The analyzer does not run in this browser: ${failure.message}`; },
);
