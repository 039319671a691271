// What the page shows, in one object, and as the part of a link behind its #.
const AXES = {
  gap: { low: -5, high: 0 },   // log10(1 - m)
  rate: { low: -6, high: 1 },  // log10 of eta * lambda
};

const TABS = ['map', 'schedules'];

const DEFAULTS = {
  tab: 'map', rule: 'lwp-v+sc', delay: 4, gap: -1, rate: -2, condition: 1000,
  horizon: null, a: null, b: null,  // null: the rule's own
  kind: 'pb', stages: 4, microbatches: 8, perUpdate: 0,  // 0: the kind's own
};

const WHOLE = ['delay', 'stages', 'microbatches', 'perUpdate'];

// Names in a link are those of the command line.
const LINK_NAMES = {
  tab: 'tab', rule: 'rule', delay: 'delay', gap: 'log1m', rate: 'log-rate', condition: 'condition',
  horizon: 'horizon', a: 'sc-a', b: 'sc-b', kind: 'kind', stages: 'stages',
  microbatches: 'microbatches', perUpdate: 'microbatches-per-update',
};

function linkOf(state) {
  const parts = new URLSearchParams();
  for (const [key, name] of Object.entries(LINK_NAMES)) {
    if (state[key] !== DEFAULTS[key]) parts.set(name, String(state[key]));
  }
  return `#${parts}`;
}

function stateOf(link) {
  const parts = new URLSearchParams(link.replace(/^#/, ''));
  const state = { ...DEFAULTS };
  for (const [key, name] of Object.entries(LINK_NAMES)) {
    const text = parts.get(name);
    if (text === null) continue;
    const isText = typeof DEFAULTS[key] === 'string';
    if (isText || Number.isFinite(Number(text))) state[key] = isText ? text : Number(text);
  }
  if (!TABS.includes(state.tab)) state.tab = DEFAULTS.tab;
  for (const key of WHOLE) state[key] = Math.round(state[key]);
  state.gap = Math.min(AXES.gap.high, Math.max(AXES.gap.low, state.gap));
  state.rate = Math.min(AXES.rate.high, Math.max(AXES.rate.low, state.rate));
  return state;
}

// The program's axis `log1m`: momentum 1 - 10^u.
const momentumOf = (gap) => 1 - 10 ** gap;
const rateOf = (logRate) => 10 ** logRate;

/** A number for people: so many digits, and no more zeros than it needs. */
function show(value, digits = 5) {
  if (value === undefined || Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const text = Number(value.toPrecision(digits));
  const small = text !== 0 && (Math.abs(text) < 1e-4 || Math.abs(text) >= 1e7);
  return (small ? text.toExponential() : String(text)).replace('-', '−');
}

const SUPERSCRIPTS = { '-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹' };
const powerOfTen = (exponent) => `10${[...String(exponent)].map((c) => SUPERSCRIPTS[c]).join('')}`;
