// The tab of schedules: grid of actions and delays by stage.
const SVG = 'http://www.w3.org/2000/svg';

function svgElement(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

const ACTIONS = [
  { name: 'forward', colour: THEME.passes.forward, light: true },
  { name: 'backward', colour: THEME.passes.backward },
  { name: 'weight gradient', colour: THEME.passes['weight gradient'], light: true },
];
const UPDATE = 3;

function drawSchedule(svg, schedule, kind) {
  svg.replaceChildren();
  const cell = 24, half = schedule.slots === 2 ? 17 : 24, row = half * schedule.slots + 6, left = 66;
  const width = left + schedule.steps * cell + 4, height = schedule.workers * row + 22;
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('width', width);
  svg.setAttribute('height', height);
  svg.setAttribute('aria-label', `${kind}: ${schedule.workers} workers over ${schedule.steps} steps`);
  for (let worker = 0; worker < schedule.workers; ++worker) {
    svgElement(svg, 'text', { x: 0, y: worker * row + row / 2 + 2 }, `worker ${worker}`);
    svgElement(svg, 'rect', {
      class: 'slot', x: left, y: worker * row + 1, width: schedule.steps * cell, height: row - 6,
    });
  }
  const first = Math.min(...schedule.actions.map(([step]) => step));
  for (const [step, worker, stage, code, microbatch] of schedule.actions) {
    const x = left + (step - first) * cell, y = worker * row + 1;
    if (code === UPDATE) {
      const bar = svgElement(svg, 'rect', {
        x: x + cell - 3, y: y + (schedule.slots === 2 ? half : 0), width: 3, height: half, fill: THEME.update,
      });
      svgElement(bar, 'title', {}, `update of stage ${stage} after step ${step - first}`);
      continue;
    }
    const { name, colour, light } = ACTIONS[code];
    const top = y + (schedule.slots === 2 && code !== 0 ? half : 0);
    const rect = svgElement(svg, 'rect', { x: x + 0.5, y: top + 0.5, width: cell - 4, height: half - 1, rx: 2, fill: colour });
    svgElement(rect, 'title', {}, `${name} of micro-batch ${microbatch} at stage ${stage}, step ${step - first}`);
    svgElement(svg, 'text', { class: light ? 'on light' : 'on', x: x + cell / 2 - 1.5, y: top + half / 2 }, microbatch);
  }
  for (let step = 0; step < schedule.steps; step += 5) {
    svgElement(svg, 'text', { x: left + step * cell + cell / 2, y: height - 5, 'text-anchor': 'middle' }, step);
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
