// Schedules: the grid of passes, and delays by stage.
const ACTIONS = [
  { name: 'forward', colour: THEME.passes.forward, light: true },
  { name: 'backward', colour: THEME.passes.backward },
  { name: 'weight gradient', colour: THEME.passes['weight gradient'], light: true },
];
const UPDATE = 3;

/** Workers down, steps across: passes before `now` are drawn with the opacity `past`, others with `ahead`. */
class PipelineGrid {
  constructor() { this.image = document.createElement('canvas'); }

  draw(canvas, context, box, schedule, now, label, { past = 0.35, ahead = 0.12 } = {}) {
    const { workers, steps, slots } = schedule;
    const ticks = ticksBetween(0, workers - 1, 4).filter(Number.isInteger).map((worker) => worker + 0.5);
    [this.px, this.py] = axesIn(context, box, { low: 0, high: steps, label: 'step' },
      { low: workers, high: 0, label, ticks, format: (v) => v - 0.5 });
    Object.assign(this, { slots, wide: box.width / steps, row: box.height / workers });
    this.high = this.row / slots;
    this.gap = this.wide > 4 ? 1 : 0;
    this.keepImage(canvas, context, schedule);
    const right = this.px(now);
    this.paint(canvas, context, box, ahead, box.x + box.width);
    this.paint(canvas, context, box, past, right);
    if (now < steps) strokeCurve(context, box, [[right, box.y], [right, box.y + box.height]], colourOf('--ink'));
  }

  /** Where the part of a worker's row begins that its passes of this code take. */
  top([, worker, , code]) { return this.py(worker) + (this.slots === 2 && code ? this.high : 0); }

  cell(context, action, least = 0.5) {
    context.fillStyle = ACTIONS[action[3]].colour;
    context.fillRect(this.px(action[0]), this.top(action), Math.max(least, this.wide - this.gap),
      Math.max(least, this.high - this.gap));
  }

  update(context, action) {
    const high = Math.max(2, this.high);
    context.fillStyle = THEME.update;
    context.fillRect(this.px(action[0] + 1) - 1.5, this.top(action), 2, high);
  }

  /** All passes, drawn once for a schedule and a size. */
  keepImage(canvas, context, schedule) {
    const { image } = this;
    if (this.schedule === schedule && image.width === canvas.width && image.height === canvas.height) return;
    this.schedule = schedule;
    Object.assign(image, { width: canvas.width, height: canvas.height });
    const picture = image.getContext('2d');
    picture.setTransform(context.getTransform());
    for (const action of schedule.actions) if (action[3] !== UPDATE) this.cell(picture, action);
  }

  paint(canvas, context, box, alpha, right) {
    context.save();
    context.globalAlpha = alpha;
    context.beginPath();
    context.rect(box.x, box.y, right - box.x, box.height);
    context.clip();
    context.drawImage(this.image, 0, 0, canvas.clientWidth, canvas.clientHeight);
    context.restore();
  }
}

/** `choose` is told the delay of the stage whose button is pressed. */
function fillDelays(body, schedule, choose) {
  body.replaceChildren(...schedule.stages.map((numbers, stage) => {
    const row = document.createElement('tr');
    for (const value of [stage, ...numbers]) row.insertCell().textContent = String(value);
    row.cells[1].dataset.value = numbers[0];
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = `map at D = ${numbers[0]}`;
    button.addEventListener('click', () => choose(numbers[0]));
    row.insertCell().append(button);
    return row;
  }));
}
