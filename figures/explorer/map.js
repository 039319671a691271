// The map of ln |r_max|: colours, lines of equal half-life, axes and marks on one canvas.
class RadiusMap {
  static margin = { left: 46, right: 12, top: 10, bottom: 40 };

  constructor(canvas) {
    this.canvas = canvas;
    this.image = document.createElement('canvas');
    this.size = 0;
    this.values = null;
    const log = (value) => Math.log(value);
    const [slow, fast] = THEME.norm;
    this.shadeOffset = -log(slow);
    this.shadeFactor = 255 / (log(fast) - log(slow));
    const packed = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
    this.shades = Uint32Array.from(THEME.viridis, packed);
    this.diverges = packed(THEME.diverges);
  }

  /** Takes values over; row 0 is the smallest 1 - m, at the bottom. */
  set(values, size) {
    this.values = values;
    this.size = size;
    if (this.image.width !== size) {
      this.image.width = this.image.height = size;
      this.pixels = this.image.getContext('2d').createImageData(size, size);
      this.words = new Uint32Array(this.pixels.data.buffer);
    }
    for (let row = 0; row < size; ++row) {
      const from = row * size;
      const to = (size - 1 - row) * size;
      for (let column = 0; column < size; ++column) {
        this.words[to + column] = this.shade(values[from + column]);
      }
    }
    this.image.getContext('2d').putImageData(this.pixels, 0, 0);
    this.lines = [...THEME.halfLives.map((h) => -Math.LN2 / h), 0].map((level) => this.contour(level));
  }

  shade(logRadius) {
    if (logRadius >= 0) return this.diverges;
    const index = Math.round((Math.log(-logRadius) + this.shadeOffset) * this.shadeFactor);
    return this.shades[Math.max(0, Math.min(255, index))];
  }

  /** Marching squares: pairs of points in units of cells. */
  contour(level) {
    const { values, size } = this;
    const points = [];
    const corner = [];
    for (let row = 0; row + 1 < size; ++row) {
      for (let column = 0, at = row * size; column + 1 < size; ++column, ++at) {
        const a = values[at] - level, b = values[at + 1] - level;
        const c = values[at + size + 1] - level, d = values[at + size] - level;
        const inside = (a < 0) + (b < 0) + (c < 0) + (d < 0);
        if (inside === 0 || inside === 4) continue;
        corner.length = 0;
        if ((a < 0) !== (b < 0)) corner.push(column + fraction(a, b), row);
        if ((b < 0) !== (c < 0)) corner.push(column + 1, row + fraction(b, c));
        if ((c < 0) !== (d < 0)) corner.push(column + fraction(d, c), row + 1);
        if ((d < 0) !== (a < 0)) corner.push(column, row + fraction(a, d));
        points.push(...corner);
      }
    }
    return points;
  }

  get box() {
    return boxOf(this.canvas, RadiusMap.margin);
  }

  /** Place on the canvas of (log10 rate, log10(1 - m)), and back. */
  place(rate, gap) {
    const { x, y, width, height } = this.box;
    return [
      x + (width * (rate - AXES.rate.low)) / (AXES.rate.high - AXES.rate.low),
      y + height - (height * (gap - AXES.gap.low)) / (AXES.gap.high - AXES.gap.low),
    ];
  }

  pointAt(left, top) {
    const { x, y, width, height } = this.box;
    const clamp = (value) => Math.min(1, Math.max(0, value));
    return {
      rate: AXES.rate.low + clamp((left - x) / width) * (AXES.rate.high - AXES.rate.low),
      gap: AXES.gap.low + clamp((y + height - top) / height) * (AXES.gap.high - AXES.gap.low),
    };
  }

  /** `pin` is told of the point that is pressed, `hover` of that under a mouse, or of none. */
  listen(pin, hover = () => {}) {
    const { canvas } = this;
    const at = (event) => {
      const frame = canvas.getBoundingClientRect();
      return this.pointAt(event.clientX - frame.left, event.clientY - frame.top);
    };
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      canvas.focus({ preventScroll: true });
      pin(at(event));
    });
    canvas.addEventListener('pointermove', (event) => {
      if (event.buttons > 0) pin(at(event));
      else if (event.pointerType === 'mouse') hover(at(event));
    });
    canvas.addEventListener('pointerleave', () => hover(null));
  }

  draw({ pinned, hovered, best }) {
    const context = prepare(this.canvas);
    const { x, y, width, height } = this.box;
    context.imageSmoothingEnabled = this.size < 256;
    context.drawImage(this.image, x, y, width, height);
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    this.lines.forEach((points, index) => {
      const edge = index === this.lines.length - 1;
      this.stroke(context, points, edge ? '#000' : '#fff', edge ? 2.2 : 1);
    });
    this.labels(context);
    if (best) this.star(context, ...this.place(best.rate, best.gap));
    context.restore();
    this.cross(context, pinned, 7);
    if (hovered) this.cross(context, hovered, 4);
    this.axes(context);
  }

  stroke(context, points, colour, width) {
    const box = this.box;
    const scaleX = box.width / (this.size - 1), scaleY = box.height / (this.size - 1);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    for (let i = 0; i + 3 < points.length; i += 4) {
      context.moveTo(box.x + points[i] * scaleX, box.y + box.height - points[i + 1] * scaleY);
      context.lineTo(box.x + points[i + 2] * scaleX, box.y + box.height - points[i + 3] * scaleY);
    }
    context.stroke();
  }

  /** The number of updates on each line, where it crosses a third of the map's height. */
  labels(context) {
    const box = this.box;
    textStyle(context, 'center', 'middle', '600 11px system-ui, sans-serif');
    THEME.halfLives.forEach((halfLife, index) => {
      const points = this.lines[index];
      let nearest = -1, least = Infinity;
      for (let i = 0; i < points.length; i += 4) {
        const off = Math.abs(points[i + 1] / (this.size - 1) - 0.72) + 0.2 * (points[i] / (this.size - 1));
        if (off < least) { least = off; nearest = i; }
      }
      if (nearest < 0) return;
      const left = box.x + (points[nearest] / (this.size - 1)) * box.width;
      const top = box.y + box.height * (1 - points[nearest + 1] / (this.size - 1));
      const text = halfLife.toLocaleString('en').replace(',', '\u202f');
      context.lineWidth = 3.5;
      context.strokeStyle = '#0009';
      context.strokeText(text, left, top);
      context.fillStyle = '#fff';
      context.fillText(text, left, top);
    });
  }

  star(context, left, top) {
    context.beginPath();
    for (let i = 0; i < 10; ++i) {
      const angle = (i * Math.PI) / 5 - Math.PI / 2, reach = i % 2 ? 4 : 9.5;
      context.lineTo(left + reach * Math.cos(angle), top + reach * Math.sin(angle));
    }
    context.closePath();
    context.fillStyle = '#D55E00';
    context.strokeStyle = '#fff';
    context.lineWidth = 1.6;
    context.fill();
    context.stroke();
  }

  cross(context, point, reach) {
    const [left, top] = this.place(point.rate, point.gap);
    for (const [colour, width] of [['#000', 4.5], ['#fff', 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      circle(context, left, top, reach);
      context.stroke();
    }
  }

  axes(context) {
    const { x, y, width, height } = this.box;
    context.strokeStyle = context.fillStyle = colourOf('--ink');
    context.lineWidth = 1;
    context.strokeRect(x, y, width, height);
    const font = '12px system-ui, sans-serif';
    textStyle(context, 'center', 'top', font);
    for (let power = AXES.rate.low; power <= AXES.rate.high; ++power) {
      const [left] = this.place(power, 0);
      context.fillText(powerOfTen(power), left, y + height + 5);
    }
    context.fillText('normalised rate ηλ', x + width / 2, y + height + 22);
    textStyle(context, 'right', 'middle', font);
    for (let power = AXES.gap.low; power <= AXES.gap.high; ++power) {
      const [, top] = this.place(0, power);
      context.fillText(powerOfTen(power), x - 5, Math.max(top, y + 5));
    }
    context.save();
    context.translate(9, y + height / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'center';
    context.fillText('1 − momentum m', 0, 0);
    context.restore();
  }
}

/** Where between two neighbours of opposite signs the level lies; -infinity counts as far away. */
function fraction(from, to) {
  const a = Math.max(-1e3, from), b = Math.max(-1e3, to);
  return a / (a - b);
}

function drawScale(canvas) {
  const context = canvas.getContext('2d');
  THEME.viridis.forEach(([r, g, b], index) => {
    context.fillStyle = `rgb(${r} ${g} ${b})`;
    context.fillRect(index, 0, 1, 1);
  });
}
