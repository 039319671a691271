// The page: one state, which controls change and from which everything is drawn.
const COARSE = 128, FINE = 512;
const SETTLE_MS = 80;  // without a change before the fine map starts
const ROWS = 8;         // of the fine map at a time: a whole number of vectors
const ROOTS_DELAY = 64; // the largest at which all roots are found

class Page {
  constructor(engine) {
    this.engine = engine;
    this.state = stateOf(location.hash);
    this.hovered = null;
    this.best = null;
    this.times = {};
    this.fine = new Background();
    this.map = new RadiusMap(byId('map'));
    this.sliders = new Sliders(byId('sliders'), SLIDERS, (key, value, settled) => this.change({ [key]: value }, settled));
    this.pipeline = new ScheduleFigure(engine);
    this.scheduleSliders = new Sliders(byId('schedule-sliders'), SCHEDULE_SLIDERS, (key, value) => this.change({ [key]: value }));
    fillSelect(byId('rule'), engine.rules.map(({ name, title }) => [name, `${name}: ${title}`]));
    fillSelect(byId('kind'), engine.kinds.map(({ name, title }) => [name, name === title ? name : `${name}: ${title}`]));
    byId('rule').addEventListener('change', () => this.change({ rule: byId('rule').value, horizon: null, a: null, b: null }, true));
    byId('kind').addEventListener('change', () => this.change({ kind: byId('kind').value, perUpdate: 0 }));
    for (const tab of TABS) byId(`tab-${tab}`).addEventListener('click', () => this.change({ tab }));
    document.querySelector('[role=tablist]').addEventListener('keydown', ({ key }) => {
      const tab = { ArrowLeft: 'map', ArrowRight: 'schedules' }[key];
      if (!tab) return;
      this.change({ tab });
      byId(`tab-${tab}`).focus();
    });
    byId('to-best').addEventListener('click', () => this.goToBest());
    byId('copy-link').addEventListener('click', () => this.copyLink());
    this.listenToMap();
    drawScale(byId('scale'));
    addEventListener('hashchange', () => { if (location.hash !== linkOf(this.state)) this.restart(stateOf(location.hash)); });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
    const resized = new ResizeObserver(() => this.redraw());
    for (const canvas of [byId('map'), this.pipeline.first]) resized.observe(canvas);
    this.restart(this.state);
  }

  restart(state) {
    const { rules, kinds } = this.engine;
    if (!rules.some(({ name }) => name === state.rule)) state.rule = DEFAULTS.rule;
    if (!kinds.some(({ name }) => name === state.kind)) state.kind = DEFAULTS.kind;
    this.state = state;
    this.newMap(true);
    this.redraw();
  }

  change(difference, settled = false) {
    Object.assign(this.state, difference);
    const link = linkOf(this.state);
    clearTimeout(this.linkTimer);
    this.linkTimer = setTimeout(() => history.replaceState(null, '', link === '#' ? location.href.split('#')[0] : link), 100);
    if (['rule', 'delay', 'horizon', 'a', 'b'].some((key) => key in difference)) this.newMap(settled);
    else if ('condition' in difference) this.findBestSoon();
    this.redraw();
  }

  get rule() { return this.engine.rules.find(({ name }) => name === this.state.rule); }
  get point() { return this.hovered ?? this.state; }

  setRule() {
    const { rule, delay, horizon, a, b } = this.state;
    try {
      this.engine.setRule(rule, delay, { horizon, a, b });
      byId('error').textContent = '';
      return true;
    } catch (failure) {
      byId('error').textContent = failure.message;
      return false;
    }
  }

  /** Coarse at the next frame; fine once nothing has changed for a while. */
  newMap(settled) {
    this.best = null;
    this.fine.stop();
    clearTimeout(this.fineTimer);
    this.mapWanted = this.mapPending = true;
    this.fineTimer = setTimeout(() => this.startFine(), settled ? 30 : SETTLE_MS);
  }

  coarseMap() {
    this.mapWanted = false;
    if (!this.setRule()) return;
    const start = performance.now();
    this.map.set(this.engine.mapRows(COARSE, 0, COARSE).slice(), COARSE);
    this.times.coarse = performance.now() - start;
  }

  startFine() {
    if (!this.setRule()) return;
    const { engine, map } = this;
    const values = new Float32Array(FINE * FINE);
    let busy = 0;
    const rows = function* () {
      for (let row = 0; row < FINE; row += ROWS) {
        const start = performance.now();
        values.set(engine.mapRows(FINE, row, ROWS), row * FINE);
        busy += performance.now() - start;
        yield;
      }
      map.set(values, FINE);
    };
    this.fine.start(rows(), (done) => {
      if (!done) return;
      this.mapPending = false;
      this.times.fine = busy;
      byId('times').textContent = `${FINE} × ${FINE} points in ${busy.toFixed(0)} ms.`;
      this.redraw();
      requestAnimationFrame(() => this.findBestSoon());
    });
  }

  findBestSoon() {
    clearTimeout(this.bestTimer);
    this.best = null;
    this.bestTimer = setTimeout(() => {
      try {
        const found = this.engine.best(this.state.condition);
        this.best = { ...found, gap: Math.log10(1 - found.momentum), rateValue: found.rate, rate: Math.log10(found.rate) };
      } catch (failure) {
        byId('error').textContent = failure.message;
      }
      this.redraw();
    }, 20);
  }

  goToBest() {
    if (!this.best) return;
    const clamp = (value, { low, high }) => Math.min(high, Math.max(low, value));
    this.hovered = null;
    this.change({ gap: clamp(this.best.gap, AXES.gap), rate: clamp(this.best.rate, AXES.rate) });
  }

  async copyLink() {
    const button = byId('copy-link');
    const link = location.href.split('#')[0] + linkOf(this.state);
    try {
      await navigator.clipboard.writeText(link);
      button.textContent = 'Copied';
    } catch {
      history.replaceState(null, '', linkOf(this.state));
      button.textContent = 'It is in the address bar';
    }
    setTimeout(() => { button.textContent = 'Copy link'; }, 2000);
  }

  listenToMap() {
    const { canvas } = this.map;
    this.map.listen((point) => { this.hovered = null; this.change(point); },
      (point) => { this.hovered = point; this.redraw(); });
    canvas.addEventListener('keydown', (event) => {
      const far = event.shiftKey ? 0.5 : 0.05;
      const move = { ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, far], ArrowDown: [0, -far] }[event.key];
      if (event.key === 'o' || event.key === 'O') this.goToBest();
      if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.hovered = null;
      const within = (value, { low, high }) => Number(Math.min(high, Math.max(low, value)).toFixed(6));
      this.change({ rate: within(this.state.rate + move[0], AXES.rate), gap: within(this.state.gap + move[1], AXES.gap) });
    });
  }

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const { state } = this;
    for (const tab of TABS) {
      byId(`view-${tab}`).hidden = state.tab !== tab;
      byId(`tab-${tab}`).setAttribute('aria-selected', state.tab === tab);
    }
    try {
      if (state.tab !== 'schedules' && this.pipeline.playing) this.pipeline.play(false);
      if (state.tab === 'schedules') this.drawSchedules();
      else this.drawMap();
    } catch (failure) {
      byId('error').textContent = failure.message;
    }
  }

  drawMap() {
    if (this.mapWanted) this.coarseMap();
    const { state, rule } = this;
    byId('rule').value = state.rule;
    byId('equation').textContent = rule.equation;
    if (!this.setRule() || !this.map.values) { this.sliders.show(state, rule); return; }
    const start = performance.now();
    this.map.draw({ pinned: state, hovered: this.hovered, best: this.best });
    this.times.mapDraw = performance.now() - start;
    const own = this.engine.point(momentumOf(state.gap), rateOf(state.rate));
    this.sliders.show(state, rule, own);
    this.drawPoint();
  }

  drawPoint() {
    const { gap, rate: logRate } = this.point;
    const momentum = momentumOf(gap), rate = rateOf(logRate);
    const point = this.engine.point(momentum, rate);
    const margins = this.engine.margins(momentum, rate);
    byId('readings-title').textContent = this.hovered ? 'Under the pointer' : 'At the point';
    fillValues(byId('point-values'), [
      ['momentum m', 'momentum', momentum, show(momentum, 7)],
      ['rate ηλ', 'rate', rate, show(rate)],
      ['|r_max|', 'spectral_radius', point.radius, show(point.radius, 8)],
      ['certified to', 'error_bound', point.errorBound, show(point.errorBound, 2)],
      ['half-life', 'half_life_updates', point.halfLife, point.stable ? `${show(point.halfLife)} updates` : 'none'],
      ['stability', 'stable', point.stable, point.stable ? 'stable' : 'diverges', point.stable ? 'stable' : 'unstable'],
      ['critical rate', 'critical_rate', margins.criticalRate, show(margins.criticalRate)],
      ['gain margin', 'gain_margin', margins.gain, show(margins.gain)],
      ['phase margin', 'phase_margin_radians', margins.phase, `${show((margins.phase * 180) / Math.PI, 4)}°`],
      ['delay margin', 'delay_margin_updates', margins.delay, `${show(margins.delay, 4)} updates`],
      ['a, b, T', 'coefficients', [point.a, point.b, point.horizon].join(' '), [point.a, point.b, point.horizon].map((v) => show(v, 4)).join(', ')],
    ]);
    if (!this.hovered) {
      const verdict = point.stable ? `stable, half-life ${show(point.halfLife, 3)} updates` : 'diverges';
      this.say(`momentum ${show(momentum, 5)}, rate ${show(rate, 3)}: ${verdict}`);
    }
    const best = this.best ?? {};
    const updatesOf = (value) => (this.best ? `${show(value)} updates` : '…');
    fillValues(byId('best-values'), [
      ['condition number κ', 'condition', this.state.condition, show(this.state.condition)],
      ['half-life', 'best_half_life_updates', best.halfLife, updatesOf(best.halfLife)],
      ['momentum m', 'best_momentum', best.momentum, show(best.momentum, 6)],
      ['largest ηλ', 'best_rate', best.rateValue, show(best.rateValue)],
      ['any linear rule needs', 'limit_half_life_updates', best.limitHalfLife, updatesOf(best.limitHalfLife)],
    ]);
    // So many updates that the decay, and at least some delays, can be seen.
    const shown = Math.max(30, 6 * (this.state.delay + 1), point.stable ? 5 * point.halfLife : 0);
    const updates = Math.round(Math.min(shown, 3000));
    drawSeries(byId('plot-trajectory'), [{ values: this.engine.trajectory(momentum, rate, updates) }], 'weight, starts at 1');
    const reach = Math.max(20, 3 * (this.state.delay + 1), Math.min(3000, 5 * 10 ** -gap));
    drawSeries(byId('plot-impulse'), [{ values: this.engine.impulse(momentum, Math.round(reach)) }], 'weight / η');
    drawBode(byId('plot-bode'), this.engine.bode(momentum, rate, 240), margins.crossover);
    this.drawRootsSoon(momentum, rate, point.radius);
  }

  /** To screen readers, once the point rests. */
  say(text) {
    clearTimeout(this.sayTimer);
    this.sayTimer = setTimeout(() => {
      if (byId('spoken').textContent !== text) byId('spoken').textContent = text;
    }, 400);
  }

  /**
   * At once where that is quick. The companion matrix of a larger delay waits until the point rests and the
   * fine map is drawn; that of a delay above ROOTS_DELAY would hold the page up for seconds.
   */
  drawRootsSoon(momentum, rate, radius) {
    clearTimeout(this.rootsTimer);
    if (this.state.delay > ROOTS_DELAY) {
      drawRoots(byId('plot-roots'), [], radius, `roots are found up to a delay of ${ROOTS_DELAY}`);
      return;
    }
    const key = [this.state.rule, this.state.delay, this.state.horizon, this.state.a, this.state.b, momentum, rate].join();
    const draw = () => {
      if (this.rootsKey !== key) {
        this.roots = this.engine.roots(momentum, rate);
        this.rootsKey = key;
      }
      drawRoots(byId('plot-roots'), this.roots, radius);
    };
    if (this.rootsKey === key || this.state.delay <= 6) draw();
    else if (!this.mapPending) this.rootsTimer = setTimeout(draw, 150);
  }

  drawSchedules() {
    byId('kind').value = this.state.kind;
    this.scheduleSliders.show(this.state);
    try {
      this.takeSchedule();
      byId('schedule-error').textContent = '';
      byId('schedule-result').hidden = false;
      this.pipeline.show(this.schedule, this.scheduleTitle);
    } catch (failure) {
      byId('schedule-error').textContent = failure.message;
      byId('schedule-result').hidden = true;
      this.pipeline.play(false);
    }
  }

  /** Makes the schedule of the state, once. */
  takeSchedule() {
    const { kind, stages, microbatches, perUpdate } = this.state;
    const key = [kind, stages, microbatches, perUpdate].join();
    if (this.scheduleKey === key) return;
    this.scheduleKey = null;
    const schedule = this.engine.schedule(kind, stages, microbatches, perUpdate);
    this.scheduleKey = key;
    this.schedule = schedule;
    this.scheduleTitle = this.engine.kinds.find(({ name }) => name === kind).title;
    byId('schedule-summary').textContent = `${this.scheduleTitle}: ${schedule.workers} workers, ${schedule.steps} steps, `
      + `${show(100 * schedule.utilisation, 3)} % of the slots filled, fill and drain included.`;
    byId('schedule-summary').dataset.value = schedule.utilisation;
    fillDelays(byId('delays').tBodies[0], schedule, (delay) => this.change({ delay, tab: 'map' }, true));
  }
}

Engine.load(WASM).then(
  (engine) => { globalThis.explorer = new Page(engine); },
  (failure) => { byId('error').textContent = `The analyzer does not run in this browser: ${failure.message}`; },
);
