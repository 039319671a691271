// Figures with a state, sliders for it, canvases and a list of values; and figures that move.
const STILL = matchMedia('(prefers-reduced-motion: reduce)').matches;

class Figure {
  /** `commands` has the engine. */
  constructor(id, commands, table, state) {
    this.root = byId(id);
    this.commands = commands;
    this.engine = commands.engine;
    this.state = state;
    this.values = this.root.querySelector('dl');
    [this.first, this.second] = this.root.querySelectorAll('canvas:not(.scale)');
    this.sliders = new Sliders(this.root.querySelector('.sliders'), table,
      (key, value, settled) => this.change({ [key]: value }, settled), id);
  }

  change(difference) {
    Object.assign(this.state, difference);
    this.redraw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.find?.();
      this.sliders.show(this.state);
      this.draw();
    });
  }
}

/** One with a clock: `now` in its state runs from 0 to its `last`. */
class MovingFigure extends Figure {
  constructor(...parts) {
    super(...parts);
    this.seconds = 8;
    this.button = this.root.querySelector('.play');
    this.button.addEventListener('click', () => this.play(!this.playing));
  }

  /** A slider tells whether it has settled; the clock does not. */
  change(difference, settled) {
    super.change(difference);
    if ('now' in difference && settled !== undefined) this.play(false);
  }

  play(on) {
    this.playing = on;
    this.button.textContent = on ? 'Pause' : 'Play';
    if (!on) return;
    if (this.state.now >= this.state.last) this.state.now = 0;
    let before = performance.now();
    const tick = (time) => {
      if (!this.playing) return;
      const { now, last } = this.state;
      this.change({ now: Math.min(last, now + (last * Math.max(0, time - before)) / (1000 * this.seconds)) });
      before = time;
      if (this.state.now === last) this.play(false);
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
}

const now = (label) => ({ key: 'now', label, low: 0, step: 1, highOf: ({ last }) => last, text: (v) => String(Math.floor(v)) });
