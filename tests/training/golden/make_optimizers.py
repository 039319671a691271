"""Updates of every optimizer in NumPy, for the trainer's to compare with.

    python3 tests/training/golden/make_optimizers.py [--check]

Writes optimizers.json beside this file; `--check` compares with it and exits 1 where it differs by more
than 1e-12. Each optimizer is written as its authors' equations (and PyTorch's documentation) have it,
tensor by tensor in double precision, with old weights kept in a list.

A stage of three tensors, (4, 6), (6, 4) and (4), starts at `start` and gets `gradients`, one an update,
whatever its weights are. Spike compensation and the look-aheads are those of analysis/rule.h.
"""

import json
import pathlib
import sys

import numpy as np

FILE = pathlib.Path(__file__).with_name("optimizers.json")
SHAPES = [(4, 6), (6, 4), (4,)]
UPDATES = 7
RATE = 0.05
MOMENTUM = 0.8


def spike(m, d):
    return m**d, (1 - m**d) / (1 - m)


class Case:
    """One optimizer with one rule on one tensor; `delay` in updates."""

    def __init__(self, values, delay, rule, decay):
        self.h = values
        self.delay = self.age = delay
        self.rule = rule
        self.decay = decay
        self.momentum = MOMENTUM

    def compensation(self, m):
        if self.rule == "nesterov":
            return spike(m, 1)
        return spike(m, self.delay) if "sc" in self.rule.split("+") else (1.0, 0.0)


def momentum_step(case, s, w, g, rate=RATE):
    """w after an update of v by g; also what the look-ahead goes along."""
    a, b = case.compensation(case.momentum)
    s["v"] = case.momentum * s.get("v", 0 * w) + g
    return w - rate * (a * s["v"] + b * g), rate * s["v"]


def sgdm_step(case, s, w, g, rate=RATE):
    return momentum_step(case, s, w, g + case.decay * w, rate)


def sgdm(case, s, w, g, t, history):
    return sgdm_step(case, s, w, g)


def adam(case, s, w, g, t, history, decoupled=False, rate=RATE):
    b1, b2, eps = case.h.get("beta1", 0.9), case.h.get("beta2", 0.999), case.h.get("epsilon", 1e-8)
    a, b = case.compensation(b1)
    if decoupled:
        w = w - rate * case.decay * w
    else:
        g = g + case.decay * w
    s["m"] = b1 * s.get("m", 0 * w) + (1 - b1) * g
    s["s"] = b2 * s.get("s", 0 * w) + (1 - b2) * g * g
    denominator = np.sqrt(s["s"] / (1 - b2**t)) + eps
    numerator = (a * s["m"] + b * (1 - b1) * g) / (1 - b1**t)
    return w - rate * numerator / denominator, rate * s["m"] / (1 - b1**t) / denominator


def adamw(case, s, w, g, t, history, rate=RATE):
    return adam(case, s, w, g, t, history, decoupled=True, rate=rate)


def nadam(case, s, w, g, t, history, decoupled=False):
    """PyTorch's, with the product of its momenta kept from update to update.

    Spike compensation for D more updates: of the weights' response to one gradient, c_0 at its own
    update and c_0 + ... + c_k after k more, a late gradient leaves out the first D sums.
    """
    b1, b2, eps = case.h.get("beta1", 0.9), case.h.get("beta2", 0.999), case.h.get("epsilon", 1e-8)
    psi = case.h.get("momentum_decay", 0.004)
    if decoupled:
        w = w - RATE * case.decay * w
    else:
        g = g + case.decay * w
    mu, mu_next = (b1 * (1 - 0.5 * 0.96 ** (psi * k)) for k in (t, t + 1))
    s["product"] = s.get("product", 1.0) * mu
    s["m"] = b1 * s.get("m", 0 * w) + (1 - b1) * g
    s["s"] = b2 * s.get("s", 0 * w) + (1 - b2) * g * g
    denominator = np.sqrt(s["s"] / (1 - b2**t)) + eps
    of_mean = mu_next / (1 - s["product"] * mu_next)
    of_gradient = (1 - mu) / (1 - s["product"])
    if "sc" in case.rule.split("+"):
        response = lambda k: of_gradient + of_mean * (1 - b1) * sum(b1**j for j in range(k + 1))
        of_mean, of_gradient = (
            (response(case.delay + 1) - response(case.delay)) / (b1 * (1 - b1)),
            response(case.delay) - (response(case.delay + 1) - response(case.delay)) / b1)
    w_new = w - RATE * (of_mean * s["m"] + of_gradient * g) / denominator
    return w_new, RATE * s["m"] / (1 - b1**t) / denominator


def nadamw(case, s, w, g, t, history):
    return nadam(case, s, w, g, t, history, decoupled=True)


def adaptive_braking(case, s, w, g, t, history):
    v = s.get("v", 0 * w)
    g = g + case.decay * w
    norms = np.linalg.norm(g) * np.linalg.norm(v)
    cosine = float(np.sum(g * v) / norms) if norms > 0 else 0.0
    return momentum_step(case, s, w, (1 - case.h["braking"] * cosine) * g)


def dc_asgd(case, s, w, g, t, history):
    stale = history[max(0, len(history) - 1 - case.delay)]
    return sgdm_step(case, s, w, g + case.h["delay_compensation"] * g * g * (w - stale))


def gap_aware(case, s, w, g, t, history):
    stale = history[max(0, len(history) - 1 - case.delay)]
    step = RATE * (np.sqrt(np.mean(s.get("v", 0 * w) ** 2)) + 1e-8)
    return sgdm_step(case, s, w, g / (1 + np.abs(w - stale) / step))


def pipemare(case, s, w, g, t, history):
    p = 1 - min((t - 1) / case.h["annealing_samples"], 1)
    w_new, along = sgdm_step(case, s, w, g, RATE / case.delay**p)
    gamma = case.h["discrepancy_decay"] ** (1 / case.delay)
    s["delta"] = gamma * s.get("delta", 0 * w) + (1 - gamma) * (w_new - w)
    s["backward"] = w_new - case.delay * s["delta"]
    return w_new, along


def ema_nesterov(case, s, w, g, t, history):
    gamma = case.h["mean_decay"]
    w_new, _ = sgdm_step(case, s, w, g)
    s["mean"] = gamma * s.get("mean", 0 * w) + (1 - gamma) * (w_new - w)
    return w_new, -s["mean"]


def cgad(case, s, w, g, t, history):
    return momentum_step(case, s, w, np.exp(-case.h["age_decay"] * case.age) * (g + case.decay * w))


def orthogonal(u):
    tall = u.shape[0] > u.shape[1]
    x = u.T if tall else u
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if tall else x


def muon(case, s, w, g, t, history):
    if w.ndim < 2:
        return adamw(case, s, w, g, t, history, rate=case.h["vector_lr_ratio"] * RATE)
    a, b = case.compensation(MOMENTUM) if "sc" in case.rule.split("+") else (MOMENTUM, 1.0)
    s["v"] = MOMENTUM * s.get("v", 0 * w) + g
    along = RATE * np.sqrt(max(1, w.shape[0] / w.shape[1])) * orthogonal(a * s["v"] + b * g)
    return w - RATE * case.decay * w - along, along


def turned(mean, basis, t):
    """The next update's basis: eigenvectors at first, then Q of an iteration's step every ten updates.

    Eigenvalues that are 0 have any vectors; here those that Gram and Schmidt make of axes, of which each
    has at least 0.4 of an axis's mean square outside the others' span. A small multiple of the identity
    keeps them where they are later.
    """
    if t % 10 != 1:
        return basis
    least = np.sqrt(np.finfo(float).eps) * np.trace(mean) / len(mean)
    if basis is not None:
        return np.linalg.qr(mean @ basis + least * basis)[0]
    values, vectors = np.linalg.eigh(mean)
    vectors = vectors[:, values > least][:, ::-1]
    for k in range(vectors.shape[1], len(mean)):
        outside = np.eye(len(mean)) - vectors @ vectors.T
        axis = np.argmax(np.diag(outside) >= 0.4 * (1 - k / len(mean)))
        vectors = np.column_stack([vectors, outside[:, axis] / np.linalg.norm(outside[:, axis])])
    return vectors


def basis_rotation(case, s, w, g, t, history):
    if w.ndim < 2:
        return adamw(case, s, w, g, t, history, rate=case.h["vector_lr_ratio"] * RATE)
    b1, b2, eps = case.h.get("beta1", 0.9), case.h.get("beta2", 0.999), case.h.get("epsilon", 1e-8)
    a, b = case.compensation(b1)
    u, v = (s.get(name, np.eye(n)) for name, n in zip(("u", "w"), w.shape))
    s["l"] = b2 * s.get("l", 0) + (1 - b2) * g @ g.T
    s["r"] = b2 * s.get("r", 0) + (1 - b2) * g.T @ g
    s["u"] = turned(s["l"], s.get("u"), t)
    s["w"] = turned(s["r"], s.get("w"), t)
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * (u.T @ g @ v) ** 2
    denominator = (1 - b1**t) * (np.sqrt(s["v"] / (1 - b2**t)) + eps)
    step = lambda x: RATE * u @ (u.T @ x @ v / denominator) @ v.T
    w_new = w - RATE * case.decay * w - step(a * s["m"] + b * (1 - b1) * g)
    return w_new, step(s["m"])


def linear(case, s, w, g, t, history):
    """The difference equation of the rule `linear`, on lists of all weights and gradients."""
    n, d = case.h["numerator"], case.h["denominator"]
    gradients = s.setdefault("g", [])
    gradients.append(g + case.decay * w)
    w_new = -sum(d[k] * history[max(0, len(history) - k)] for k in range(1, len(d)))
    late = len(d) - 1 - len(n)
    for j, factor in enumerate(n):
        if j + late < len(gradients):
            w_new = w_new - RATE * factor * gradients[-1 - j - late]
    return w_new, 0 * w


OPTIMIZERS = {
    step.__name__.replace("_", "-"): step
    for step in (sgdm, adam, adamw, nadam, nadamw, adaptive_braking, dc_asgd, gap_aware, pipemare, cgad,
                 ema_nesterov, muon, basis_rotation, linear)
}

CASES = [
    ("sgdm", {}, 3, "lwp-v+sc", 0.01),
    ("sgdm", {}, 3, "lwp-w+sc", 0.01),
    ("adam", {}, 3, "sgdm", 0.01),
    ("adam", {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}, 2, "lwp-w", 0.0),
    ("adamw", {}, 3, "sgdm", 0.1),
    ("adamw", {"beta1": 0.85}, 3, "lwp-v+sc", 0.1),
    ("nadam", {}, 3, "sgdm", 0.01),
    ("nadam", {"beta1": 0.7, "beta2": 0.95, "epsilon": 1e-3, "momentum_decay": 0.5}, 2, "lwp-v+sc",
     0.0),
    ("nadamw", {"beta1": 0.99}, 3, "sgdm", 0.1),
    ("nadamw", {"momentum_decay": 0.0}, 3, "lwp-w+sc", 0.1),
    ("adaptive-braking", {"braking": 0.7}, 2, "lwp-v+sc", 0.01),
    ("dc-asgd", {"delay_compensation": 0.5}, 2, "sc", 0.01),
    ("gap-aware", {}, 2, "sc", 0.01),
    ("pipemare", {"annealing_samples": 4, "discrepancy_decay": 0.135}, 4, "sgdm", 0.01),
    ("cgad", {"age_decay": 0.3}, 3, "lwp-v+sc", 0.01),
    ("ema-nesterov", {"mean_decay": 0.7}, 3, "lwp-v", 0.01),
    ("ema-nesterov", {"mean_decay": 0.9}, 2, "lwp-v+sc", 0.01),
    ("muon", {"vector_lr_ratio": 0.3}, 2, "sgdm", 0.1),
    ("muon", {"vector_lr_ratio": 0.3}, 3, "lwp-v+sc", 0.1),
    ("basis-rotation", {"epsilon": 1e-4, "vector_lr_ratio": 0.3}, 2, "sgdm", 0.1),
    ("basis-rotation", {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3, "vector_lr_ratio": 1.0}, 3,
     "lwp-v+sc", 0.1),
    ("linear", {"numerator": [1.4, -0.7, 0.2], "denominator": np.poly([1, 0.6, -0.3]).tolist()},
     2, "sgdm", 0.01),
    ("linear", {"numerator": [0.5], "denominator": np.poly([1, 0.7]).tolist()}, 3, "sgdm", 0.0),
]


def run(name, values, delay, rule, decay, start, gradients):
    result = {"weights": [], "forward": [], "backward": []}
    for tensor, w in enumerate(start):
        case = Case(values, delay, rule, decay)
        state, history = {}, [w]
        for t in range(1, UPDATES + 1):
            old = history[-1]
            new, along = OPTIMIZERS[name](case, state, old, gradients[t - 1][tensor], t, history)
            history.append(new)
        forward = new
        if "lwp-v" in rule:
            forward = new - delay * along
        if "lwp-w" in rule:
            forward = new + delay * (new - old)
        result["weights"].append(new)
        result["forward"].append(forward)
        result["backward"].append(state.get("backward", new))
    return {key: np.concatenate([x.ravel() for x in arrays]).tolist()
            for key, arrays in result.items()}


def make():
    random = np.random.default_rng(5)
    draw = lambda: [random.standard_normal(shape) for shape in SHAPES]
    start = draw()
    drift = draw()
    gradients = [[0.5 * d + g for d, g in zip(drift, draw())] for _ in range(UPDATES)]
    flat = lambda tensors: np.concatenate([x.ravel() for x in tensors]).tolist()
    cases = [
        {"optimizer": name, "values": values, "delay": delay, "rule": rule, "weight_decay": decay,
         **run(name, values, delay, rule, decay, start, gradients)}
        for name, values, delay, rule, decay in CASES
    ]
    return {"shapes": SHAPES, "rate": RATE, "momentum": MOMENTUM, "start": flat(start),
            "gradients": [flat(g) for g in gradients], "cases": cases}


def numbers(value):
    if isinstance(value, dict):
        return [x for key in sorted(value) for x in numbers(value[key])]
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in numbers(item)]
    return [value]


def differ_by_at_most(tolerance, old, new):
    old, new = numbers(old), numbers(new)
    return len(old) == len(new) and all(
        abs(a - b) <= tolerance * max(1, abs(b)) if isinstance(b, float) else a == b
        for a, b in zip(old, new))


def main():
    made = make()
    if "--check" not in sys.argv:
        FILE.write_text(json.dumps(made, indent=1) + "\n")
        return 0
    same = differ_by_at_most(1e-12, json.loads(FILE.read_text()), json.loads(json.dumps(made)))
    print("the same" if same else "different")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
