// Curves on canvases: roots, trajectory, impulse response, Bode plot.
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A clean canvas in CSS pixels, sharp on any screen. */
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  return context;
}

function textStyle(context, align, baseline = 'middle', font = '11px system-ui, sans-serif') {
  context.font = font;
  context.textAlign = align;
  context.textBaseline = baseline;
}

/** The path of a circle, to be filled or stroked. */
function circle(context, left, top, radius) {
  context.beginPath();
  context.arc(left, top, radius, 0, 2 * Math.PI);
}

/** Round numbers in [low, high], about so many. */
function ticksBetween(low, high, wanted) {
  const rough = (high - low) / wanted;
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) ticks.push(i * step);
  return ticks;
}

/** Axes with a grid in a box; returns the map from data to the canvas. */
function axesIn(context, box, x, y) {
  const px = (value) => box.x + (box.width * (value - x.low)) / (x.high - x.low);
  const py = (value) => box.y + box.height - (box.height * (value - y.low)) / (y.high - y.low);
  const ink = colourOf('--soft');
  context.lineWidth = 1;
  context.strokeStyle = colourOf('--grid');
  context.fillStyle = ink;
  context.beginPath();
  textStyle(context, 'center', 'top');
  for (const tick of x.ticks ?? ticksBetween(x.low, x.high, 4)) {
    context.moveTo(px(tick), box.y);
    context.lineTo(px(tick), box.y + box.height);
    if (x.format !== null) context.fillText((x.format ?? show)(tick), px(tick), box.y + box.height + 4);
  }
  textStyle(context, 'right');
  for (const tick of y.ticks ?? ticksBetween(y.low, y.high, 4)) {
    context.moveTo(box.x, py(tick));
    context.lineTo(box.x + box.width, py(tick));
    context.fillText((y.format ?? show)(tick), box.x - 4, py(tick));
  }
  context.stroke();
  if (x.label) {
    textStyle(context, 'center', 'bottom');
    context.fillText(x.label, box.x + box.width / 2, box.y + box.height + 32);
  }
  if (y.label) {
    textStyle(context, 'left', 'bottom');
    context.fillText(y.label, box.x - 34, box.y - 3);
  }
  return [px, py];
}

function strokeCurve(context, box, points, colour, dash = []) {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.width, box.height);
  context.clip();
  context.beginPath();
  for (const [left, top] of points) context.lineTo(left, top);
  context.strokeStyle = colour;
  context.lineWidth = 1.8;
  context.lineJoin = 'round';
  context.setLineDash(dash);
  context.stroke();
  context.restore();
}

function boxOf(canvas, { left = 42, right = 8, top = 18, bottom = 34 } = {}) {
  return {
    x: left, y: top, width: canvas.clientWidth - left - right,
    height: canvas.clientHeight - top - bottom,
  };
}

/** `absent` stands where no roots are given. */
function drawRoots(canvas, roots, radius, absent = 'finding roots…') {
  const context = prepare(canvas);
  const box = boxOf(canvas, { top: 6, bottom: 20, left: 30 });
  // The unit circle stays in view; a root far outside enlarges the picture.
  const reach = Math.max(1.15, Math.min(radius, 50) * 1.1);
  const unit = Math.min(box.width, box.height) / (2 * reach);
  const x = { low: -box.width / (2 * unit), high: box.width / (2 * unit) };
  const y = { low: -box.height / (2 * unit), high: box.height / (2 * unit) };
  const [px, py] = axesIn(context, box, x, y);
  context.strokeStyle = colourOf('--ink');
  context.lineWidth = 1.2;
  circle(context, px(0), py(0), unit);
  context.stroke();
  if (Number.isFinite(radius)) {
    context.setLineDash([4, 3]);
    context.strokeStyle = colourOf('--second');
    circle(context, px(0), py(0), unit * radius);
    context.stroke();
    context.setLineDash([]);
  }
  for (const [re, im] of roots) {
    const dominant = Math.hypot(re, im) > radius * (1 - 1e-9);
    context.fillStyle = colourOf(dominant ? '--second' : '--curve');
    circle(context, px(re), py(im), dominant ? 4.5 : 3);
    context.fill();
  }
  if (roots.length === 0) note(context, box, absent);
  canvas.setAttribute('aria-label', `${roots.length === 0 ? absent : `${roots.length} roots`}; the largest has modulus ${show(radius)}`);
}

function note(context, box, text) {
  context.fillStyle = colourOf('--soft');
  textStyle(context, 'center');
  context.fillText(text, box.x + box.width / 2, box.y + box.height / 2);
}

/** An axis for axesIn: one with `log` is that of the exponents, at whole powers of ten. */
function axisOf(axis) {
  if (!axis.log) return axis;
  const [low, high] = [Math.log10(axis.low), Math.log10(axis.high)];
  const ticks = [];
  for (let power = Math.ceil(low); power <= high; ++power) ticks.push(power);
  return { ...axis, low, high, ticks, format: powerOfTen };
}

/** Curves [{ points, colour, dash, dots }], points [x, y] in the axes' own units. */
function drawCurves(canvas, curves, x, y, spoken) {
  const context = prepare(canvas);
  const box = boxOf(canvas);
  const [toX, toY] = [x, y].map(({ log }) => (log ? Math.log10 : (v) => v));
  const [px, py] = axesIn(context, box, axisOf(x), axisOf(y));
  for (const { points, colour = colourOf('--curve'), dash, dots } of curves) {
    const places = points.map(([a, b]) => [px(toX(a)), py(toY(b))]);
    if (!dots) { strokeCurve(context, box, places, colour, dash); continue; }
    context.fillStyle = colour;
    for (const [left, top] of places) {
      circle(context, left, top, dots);
      context.fill();
    }
  }
  canvas.setAttribute('aria-label', spoken);
}

/**
 * Series [{ values, colour, dash, dots }] over updates, with lines at the updates of `marks`; what has
 * grown beyond 1e12 lies outside the picture.
 */
function drawSeries(canvas, series, label, marks = []) {
  const all = series.flatMap(({ values }) => values);
  const finite = all.filter((value) => Number.isFinite(value) && Math.abs(value) < 1e12);
  let low = Math.min(0, ...finite), high = Math.max(0, ...finite);
  if (low === high) high = low + 1;
  const room = 0.05 * (high - low);
  const length = Math.max(...series.map(({ values }) => values.length));
  const x = { low: 0, high: length - 1, label: 'update' };
  const y = { low: low - room, high: high + room, label, format: (v) => show(v, 3) };
  const line = (points, dash) => ({ points, dash, colour: colourOf('--soft') });
  const curves = series.map(({ values, ...look }) => ({
    points: values.map((value, i) => [i, Math.max(-1e12, Math.min(1e12, value))]).filter(([, v]) => Number.isFinite(v)),
    ...look,
  }));
  drawCurves(canvas, [
    line([[0, 0], [x.high, 0]]), ...marks.map((i) => line([[i, y.low], [i, y.high]], [4, 3])), ...curves,
  ], x, y, `${label} over ${length - 1} updates, ends at ${series.map(({ values }) => show(values.at(-1))).join(', ')}`);
}

function drawBode(canvas, points, crossover) {
  const context = prepare(canvas);
  const whole = boxOf(canvas);
  const upper = { ...whole, height: whole.height * 0.46 };
  const lower = { ...whole, y: whole.y + whole.height * 0.58, height: whole.height * 0.42 };
  const logs = points.map(([frequency, magnitude, phase]) =>
    [Math.log10(frequency), 20 * Math.log10(magnitude), (phase * 180) / Math.PI]);
  const x = { low: logs[0][0], high: logs.at(-1)[0], ticks: [-4, -3, -2, -1, 0], format: powerOfTen };
  const span = (index) => {
    const all = logs.map((point) => point[index]).filter(Number.isFinite);
    return { low: Math.min(...all) - 3, high: Math.max(...all) + 3 };
  };
  const magnitude = { ...span(1), label: 'gain, dB' };
  magnitude.low = Math.min(magnitude.low, -6);
  magnitude.high = Math.max(magnitude.high, 6);
  const phase = { ...span(2), label: 'phase, degrees' };
  // Beyond some turns of lag only the first ones matter for stability.
  phase.low = Math.max(phase.low, -720);
  const ink = colourOf('--soft');
  let [px, py] = axesIn(context, upper, { ...x, format: null }, magnitude);
  strokeCurve(context, upper, [[px(x.low), py(0)], [px(x.high), py(0)]], ink);
  strokeCurve(context, upper, logs.map((p) => [px(p[0]), py(p[1])]), colourOf('--curve'));
  const mark = crossover > 0 ? Math.log10(crossover) : null;
  if (mark !== null) strokeCurve(context, upper, [[px(mark), upper.y], [px(mark), upper.y + upper.height]], colourOf('--second'), [4, 3]);
  [px, py] = axesIn(context, lower, { ...x, label: 'frequency, rad / update' }, phase);
  strokeCurve(context, lower, [[px(x.low), py(-180)], [px(x.high), py(-180)]], ink);
  strokeCurve(context, lower, logs.map((p) => [px(p[0]), py(p[2])]), colourOf('--curve'));
  if (mark !== null) strokeCurve(context, lower, [[px(mark), lower.y], [px(mark), lower.y + lower.height]], colourOf('--second'), [4, 3]);
  canvas.setAttribute('aria-label', `Bode plot of the open loop; gain crossover at ${show(crossover)} radians per update`);
}
