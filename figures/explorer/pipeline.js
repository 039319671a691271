// The tab of schedules' moving picture: the passes under way with the versions that they read, idle
// workers, and the delays of the stages.
const LEAST_TEXT = 11;  // height in pixels of what has text in it

class ScheduleFigure extends MovingFigure {
  constructor(engine) {
    super('pipeline', { engine }, [
      { key: 'stage', label: 'Stage s', low: 0, step: 1, highOf: ({ stages }) => stages - 1, text: String },
      now('Step'),
    ], { stage: 0, stages: 1, now: 0, last: 0 });
    this.grid = new PipelineGrid();
    this.first.addEventListener('keydown', (event) => this.press(event));
  }

  press(event) {
    const { now, last, stage, stages } = this.state;
    const within = (value, high) => Math.min(high, Math.max(0, value));
    const change = {
      ArrowLeft: { now: within(Math.ceil(now) - 1, last) }, ArrowRight: { now: within(Math.floor(now) + 1, last) },
      ArrowUp: { stage: within(stage - 1, stages - 1) }, ArrowDown: { stage: within(stage + 1, stages - 1) },
    }[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey || (!change && event.key !== ' ')) return;
    event.preventDefault();
    if (change) this.change(change, true);
    else this.play(!this.playing);
  }

  /** One that is shown already goes on where it is. */
  show(schedule, title) {
    if (schedule !== this.schedule) this.take(schedule, title);
    this.redraw();
  }

  take(schedule, title) {
    const { state, first: canvas } = this;
    const { actions, steps, workers, stages } = schedule;
    this.schedule = schedule;
    this.passes = Array.from({ length: steps }, () => []);
    this.updates = Array.from(stages, () => []);
    this.stagesOf = Array.from({ length: workers }, () => new Set());
    for (const action of actions) {
      if (action[3] === UPDATE) this.updates[action[2]].push(action);
      else this.passes[action[0]].push(action);
      this.stagesOf[action[1]].add(action[2]);
    }
    this.done = [0];
    for (const passes of this.passes) this.done.push(this.done.at(-1) + passes.length);
    Object.assign(state, { last: steps, stages: stages.length, stage: Math.min(state.stage, stages.length - 1) });
    state.now = STILL ? Math.floor(steps / 2) : 0;
    this.seconds = Math.min(40, Math.max(8, 0.6 * steps));
    canvas.style.height = `${Math.min(640, 60 + 44 * workers)}px`;
    canvas.setAttribute('aria-label', `${title}: ${workers} workers over ${steps} steps. Space plays and pauses, `
      + 'left and right arrows move by a step, up and down arrows choose a stage');
    if (!STILL && !this.playing) this.play(true);
  }

  get step() { return Math.min(Math.floor(this.state.now), this.state.last - 1); }

  draw() {
    const { state, schedule, first: canvas, grid } = this;
    if (!schedule || !canvas.clientWidth) return;
    const context = prepare(canvas);
    const small = canvas.clientWidth < 560;
    const flow = small ? 52 : 96, delays = small ? 38 : 80;
    const box = boxOf(canvas, { right: flow + delays + 20 });
    grid.draw(canvas, context, box, schedule, state.now, 'worker', { past: 0.8, ahead: 0.2 });
    const updates = this.updates[state.stage].filter(([step]) => step + 1 <= state.now);
    for (const action of updates) grid.update(context, action);
    this.drawVersions(context);
    const left = box.x + box.width + 8;
    this.drawUnderWay(context, { ...box, x: left, width: flow });
    this.drawDelays(context, { ...box, x: left + flow + 8, width: delays });
    this.fillReadings(updates.at(-1)?.[5] ?? 0);
  }

  /** Micro-batches in the grid's cells, and the versions read where there is room. */
  drawVersions(context) {
    const { grid, state, schedule } = this;
    if (grid.wide < 16 || grid.high < LEAST_TEXT) return;
    textStyle(context, 'center');
    for (const action of schedule.actions) {
      if (action[3] === UPDATE || action[0] + 1 > state.now) continue;
      context.fillStyle = ACTIONS[action[3]].light ? '#fff' : '#000';
      const text = grid.wide < 40 ? action[4] : passText(action);
      context.fillText(text, grid.px(action[0]) + grid.wide / 2, grid.top(action) + grid.high / 2);
    }
  }

  /** What each worker does now. A pass moves on to the worker of its micro-batch's next step. */
  drawUnderWay(context, box) {
    const { grid, schedule, step, state } = this;
    heading(context, box, 'now');
    const high = Math.max(0.5, grid.high - (grid.high > 4 ? 1 : 0));
    context.fillStyle = colourOf('--grid');
    for (let slot = 0; slot < schedule.workers * schedule.slots; ++slot) {
      context.fillRect(box.x, box.y + slot * grid.high, box.width, high);
    }
    const key = ([, , , code, microbatch]) => `${code} ${microbatch}`;
    const next = new Map((this.passes[step + 1] ?? []).map((action) => [key(action), action]));
    const moved = Math.max(0, 2 * (state.now - step) - 1) % 1;
    textStyle(context, 'center');
    for (const action of this.passes[step]) {
      const from = grid.top(action), to = grid.top(next.get(key(action)) ?? action);
      const { colour, light } = ACTIONS[action[3]];
      const top = from + moved * (to - from);
      context.fillStyle = colour;
      context.fillRect(box.x, top, box.width, high);
      if (grid.high < LEAST_TEXT) continue;
      context.fillStyle = light ? '#fff' : '#000';
      context.fillText(passText(action), box.x + box.width / 2, top + high / 2);
    }
  }

  /** A bar for each stage in its worker's row; as many have their numbers as there is room for. */
  drawDelays(context, box) {
    const { grid, schedule, state } = this;
    heading(context, box, 'delay D');
    const most = Math.max(1, ...schedule.stages.map(([delay]) => delay));
    textStyle(context, 'left');
    this.stagesOf.forEach((stages, worker) => {
      const high = grid.row / stages.size;
      const every = high < LEAST_TEXT ? Math.ceil((2 * LEAST_TEXT) / high) : 1;
      [...stages].sort((a, b) => a - b).forEach((stage, index) => {
        const top = grid.py(worker) + index * high, [delay] = schedule.stages[stage];
        const chosen = stage === state.stage;
        context.globalAlpha = chosen ? 0.9 : 0.45;
        context.fillStyle = colourOf(chosen ? '--second' : '--curve');
        const least = chosen ? 2 : 0.5;
        context.fillRect(box.x, top, Math.max(1, (box.width * delay) / most), Math.max(least, high - (high > 4 ? 1 : 0)));
        context.globalAlpha = 1;
        context.fillStyle = colourOf('--ink');
        if ((worker * stages.size + index) % every > 0) return;
        context.fillText(delay, box.x + 2, Math.max(top + high / 2, box.y + 5));
      });
    });
  }

  fillReadings(newest) {
    const { schedule, state, step } = this;
    const [delay] = schedule.stages[state.stage];
    const { slots, workers } = schedule;
    const own = this.passes[step].filter(([, , stage]) => stage === state.stage);
    const busy = new Set(this.passes[step].map(([, worker]) => worker)).size;
    const room = slots * workers * (step + 1), idle = room - this.done[step + 1];
    const reads = ([, , , code, microbatch, version]) =>
      `${ACTIONS[code].name} of ${microbatch}${version < 0 ? '' : `, version ${version}`}`;
    fillValues(this.values, [
      ['delay of the stage', 'stage_delay', delay, delay === 1 ? '1 update' : `${delay} updates`],
      ['its pass', 'versions', own.map((action) => action[5]).join(' '), own.map(reads).join('; ') || 'idle'],
      ['its newest version', 'newest_version', newest, String(newest)],
      ['idle workers', 'idle_workers', workers - busy, `${workers - busy} of ${workers}`],
      ['idle slots so far', 'idle_slots', idle, `${idle} of ${room}`],
    ]);
  }
}

/** Micro-batch, and the version that its pass reads. */
function passText([, , , , microbatch, version]) { return version < 0 ? String(microbatch) : `${microbatch} v${version}`; }

function heading(context, box, text) {
  textStyle(context, 'left', 'bottom');
  context.fillStyle = colourOf('--soft');
  context.fillText(text, box.x, box.y - 3);
}
