// What pages are controlled by and read from. Sliders are made from one table: what each shows, and how
// its position becomes a number of the state.
const MOST_STAGES = 169;  // of a ResNet-110
const SLICE_MS = 12;  // of work at a time, so that the page stays alive

const SLIDERS = [
  { key: 'delay', label: 'Delay D', low: 0, high: 128, step: 1, text: (v) => (v === 1 ? '1 update' : `${v} updates`) },
  { key: 'gap', label: 'Momentum m', low: AXES.gap.low, high: AXES.gap.high, step: 0.01, reversed: true,
    text: (v) => show(momentumOf(v), 7) },
  { key: 'rate', label: 'Rate ηλ', low: AXES.rate.low, high: AXES.rate.high, step: 0.01,
    text: (v) => show(rateOf(v), 4) },
  { key: 'condition', label: 'Condition number κ', low: 0, high: 6, step: 0.05,
    toSlider: Math.log10, fromSlider: (v) => Number((10 ** v).toPrecision(3)), text: (v) => show(v, 4) },
  { key: 'horizon', label: 'Horizon T', own: 'horizon', low: 0, step: 0.25,
    highOf: (state) => Math.max(8, 3 * state.delay), text: (v) => `${show(v, 4)} updates` },
  { key: 'a', label: 'Compensation a', own: 'coefficients', low: -1, high: 2, step: 0.01, text: (v) => show(v, 4) },
  { key: 'b', label: 'Compensation b', own: 'coefficients', low: -1, step: 0.05,
    highOf: (state) => Math.max(8, 2 * state.delay), text: (v) => show(v, 4) },
];
const SCHEDULE_SLIDERS = [
  { key: 'stages', label: 'Stages', low: 1, high: MOST_STAGES, step: 1, text: String },
  { key: 'microbatches', label: 'Micro-batches', low: 1, high: 2 * MOST_STAGES, step: 1, text: String },
  { key: 'perUpdate', label: 'Batch of an update', low: 0, high: 2 * MOST_STAGES, step: 1,
    text: (v) => (v === 0 ? 'its own' : String(v)) },
];

class Sliders {
  /** `changed(key, value, settled)` is called for each movement; settled at its end. */
  constructor(parent, table, changed, prefix = 'slider') {
    this.rows = table.map((row) => {
      const element = document.createElement('div');
      element.className = 'control';
      const id = `${prefix}-${row.key}`;
      element.innerHTML = `<div class="head"><label for="${id}">${row.label}</label>
        <output for="${id}"></output></div><input type="range" id="${id}" step="${row.step}">`;
      const input = element.querySelector('input');
      const fromSlider = row.fromSlider ?? ((v) => v);
      const read = () => fromSlider(row.reversed ? row.low + row.high - input.valueAsNumber : input.valueAsNumber);
      input.addEventListener('input', () => changed(row.key, read(), false));
      input.addEventListener('change', () => changed(row.key, read(), true));
      let check = null;
      if (row.own) {
        const label = document.createElement('label');
        label.className = 'own';
        check = document.createElement('input');
        check.type = 'checkbox';
        check.id = `${id}-own`;
        label.append(check, 'as the rule sets it');
        element.append(label);
        check.addEventListener('change', () => changed(row.key, check.checked ? null : this.own[row.key], true));
      }
      parent.append(element);
      return { ...row, element, input, check, output: element.querySelector('output') };
    });
    this.own = {};
  }

  /** `own` holds the rule's values of what the state leaves to it; `rule` says what it takes. */
  show(state, rule, own = {}) {
    this.own = own;
    for (const row of this.rows) {
      const taken = !row.own || (row.own === 'horizon' ? rule.takesHorizon : rule.takesCoefficients);
      row.element.hidden = !taken;
      const value = state[row.key] ?? own[row.key] ?? 0;
      row.input.min = row.low;
      row.input.max = row.highOf ? row.highOf(state) : row.high;
      const position = (row.toSlider ?? ((v) => v))(value);
      row.input.value = row.reversed ? row.low + row.high - position : position;
      row.output.textContent = row.text(value);
      row.output.dataset.value = value;
      row.input.setAttribute('aria-valuetext', row.text(value));
      if (row.check) {
        row.check.checked = state[row.key] === null;
        row.input.disabled = row.check.checked;
      }
    }
  }
}

const waiting = [];
const channel = new MessageChannel();
channel.port1.onmessage = () => waiting.shift()();

/** Calls `next` after what has happened meanwhile; a timer of 0 waits for 4 ms. */
function soon(next) {
  waiting.push(next);
  channel.port2.postMessage(null);
}

/** Runs a generator slice by slice; one that is started later takes its place. */
class Background {
  /** `shown(done)` is called after each slice. */
  start(work, shown) {
    this.work = work;
    const slice = () => {
      if (work !== this.work) return;
      const start = performance.now();
      let done = false;
      while (!done && performance.now() - start < SLICE_MS) done = work.next().done;
      shown(done);
      if (!done) soon(slice);
    };
    slice();
  }

  stop() { this.work = null; }
}

function byId(id) { return document.getElementById(id); }

function fillSelect(select, options) {
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
}

/** Rows of [label, name, value, text, class]: the text is for people, the value has every digit. */
function fillValues(list, rows) {
  list.replaceChildren(...rows.flatMap(([label, name, value, text, kind]) => {
    const term = document.createElement('dt'), entry = document.createElement('dd');
    term.textContent = label;
    entry.textContent = text;
    entry.dataset.name = name;
    entry.dataset.value = String(value);
    if (kind) entry.className = kind;
    return [term, entry];
  }));
}
