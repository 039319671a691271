"""Pipelines in NumPy, for the trainer's to compare with, loss by loss.

    python3 tests/training/golden/make_pipelines.py [--check]

Writes pipelines.json beside this file; `--check` compares with it and exits 1 where it differs by more
than TOLERANCE. Everything is in double precision and follows the definitions:

- A schedule is the order in which each stage does its forwards, backwards and updates. The orders are
  carried out step by step, and what is late by how much is counted there, never typed in.
- All versions of a stage's weights are kept in a list, with what the look-ahead from each goes along.
- A backward takes inputs, masks of ReLUs and normalised values as its forward left them, and only the
  parameters at the version that the schedule says.
- Updates are those of make_optimizers.py, and where each gradient is compensated by its own delay
  v' = m v + m^d g, w' = w - eta (v' + (1 - m^d)/(1 - m) g).
- Random delays are drawn by Philox4x32-10, written out below.
"""

import json
import math
import pathlib
import re
import sys

import numpy as np

from layers import CLASSES, NETWORKS, SYMBOLS, TOKENS, initial_weights
from make_optimizers import MOMENTUM, OPTIMIZERS, RATE, Case, differ_by_at_most, spike

FILE = pathlib.Path(__file__).with_name("pipelines.json")
SAMPLES = 48
TOLERANCE = 1e-11
# Eigenvectors of eigenvalues that lie close together: another LAPACK's differ by more than a rounding.
EIGENBASIS_TOLERANCE = 1e-10

# ---- Schedules: for each stage its actions in order, ("F" or "B", sample); "U" is an update.


def ahead(forwards, samples, per_update):
    """So many forwards first, then one backward and one forward in turn."""
    actions = [("F", i) for i in range(min(forwards, samples))]
    for i in range(samples):
        if i + forwards < samples:
            actions.append(("F", i + forwards))
        actions.append(("B", i))
        if (i + 1) % per_update == 0:
            actions.append(("U", i))
    return actions


def in_pairs(samples, per_update):
    """Two forwards, then their backwards."""
    actions = []
    for i in range(0, samples, 2):
        actions += [("F", i), ("F", i + 1)]
        for j in (i, i + 1):
            actions += [("B", j)] + ([("U", j)] if (j + 1) % per_update == 0 else [])
    return actions


def batches(samples, per_update, passes):
    return [action for start in range(0, samples, per_update)
            for action in passes(range(start, start + per_update))]


def one_by_one(batch):
    return [action for i in batch for action in (("F", i), ("B", i))] + [("U", batch[-1])]


def all_forwards(batch):
    return [("F", i) for i in batch] + [("B", i) for i in batch] + [("U", batch[-1])]


ORDERS = {
    "sequential": lambda s, stages, n, m: batches(n, m, one_by_one),
    "uniform-delay": lambda s, stages, n, m: batches(n, m, one_by_one),
    "random-delay": lambda s, stages, n, m: batches(n, m, one_by_one),
    "gpipe": lambda s, stages, n, m: batches(n, m, all_forwards),
    "pb": lambda s, stages, n, m: ahead(2 * (stages - 1 - s), n, m),
    "1f1b": lambda s, stages, n, m: ahead(stages - 1 - s, n, m),
    "paci": lambda s, stages, n, m: ahead(stages - 1 - s, n, m),
    "2bw": lambda s, stages, n, m: ahead(stages - 1 - s, n, m),
    "amdp": lambda s, stages, n, m: in_pairs(n, m) if 0 < s < stages - 1
    else ahead(min(1, stages - 1 - s), n, m),
}


def philox(counter, key):
    """Four words of 32 bits from four and two."""
    for _ in range(10):
        even, odd = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [odd >> 32 ^ counter[1] ^ key[0], odd & 0xFFFFFFFF,
                   even >> 32 ^ counter[3] ^ key[1], even & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def drawn_delay(case, update):
    """The delay of an update, by the run's position that its mini-batch begins at."""
    of_delays = 7
    words = philox([0, of_delays, update * case["batch"], 0], [case["seed"], 0])
    uniform = ((words[0] >> 5) * 2**26 + (words[1] >> 6)) / 2**53
    for delay, share in zip(case["delays"], case["shares"]):
        uniform -= share
        if uniform < 0:
            break
    return delay


def in_steps(schedule, stages, samples, per_update):
    """Carries the orders out: (step, stage, action) in the order of time.

    In each step every stage does its next action if what that needs was done in an earlier step (a
    forward of the same stage: or in this one). Stages of PB do a forward and a backward in a step.
    """
    orders = [ORDERS[schedule](s, stages, samples, per_update) for s in range(stages)]
    next_action = [0] * stages
    done = {}  # (kind, stage, sample): step
    timeline = []
    step = 0
    while any(at < len(order) for at, order in zip(next_action, orders)):
        now = []
        for s in range(stages):
            kinds = {"F", "B"}
            while next_action[s] < len(orders[s]):
                kind, i = orders[s][next_action[s]]
                if kind != "U":
                    if kind not in kinds:
                        break
                    needed = s - 1 if kind == "F" else s + 1
                    if 0 <= needed < stages and (kind, needed, i) not in done:
                        break
                    if schedule == "pb" and kind == "F":
                        kinds.discard("F")
                    else:
                        kinds.clear()
                    now.append((kind, s, i))
                timeline.append((step, s, kind, i))
                next_action[s] += 1
        done.update({key: step for key in now})
        assert now, "the orders wait for one another"
        step += 1
    return timeline


def versions_of(case, stages, samples):
    """Which version each pass reads, and what follows: all counted on the timeline.

    Returns the timeline, and by stage: `forward` and `backward` versions by sample, `delay` (updates
    from the forward's version to the one that the sample's update makes a successor of, once the
    pipeline is full), and SpecTrain's `horizons`.
    """
    per_update = case["batch"]
    timeline = in_steps(case["schedule"], stages, samples, per_update)
    updates = [0] * stages
    update_steps = [[] for _ in range(stages)]
    forward = [{} for _ in range(stages)]
    backward = [{} for _ in range(stages)]
    late = [{} for _ in range(stages)]
    last_step = {}
    for step, s, kind, i in timeline:
        if kind == "F":
            newest = updates[s]
            if case["schedule"] == "uniform-delay":
                newest = max(0, newest - case["lag"])
            if case["schedule"] == "random-delay":
                newest = max(0, newest - drawn_delay(case, newest))
            if case["schedule"] == "2bw":
                # Both passes: the version that the batch before the last one left.
                newest = max(i // per_update - 1, 0)
            if case.get("vertical_sync") and s > 0:
                newest = forward[0][i]
            forward[s][i] = newest
        elif kind == "B":
            backward[s][i] = updates[s]
            if s == 0:
                last_step[i] = step
        else:
            for j in range(i + 1 - per_update, i + 1):
                late[s][j] = updates[s] - forward[s][j]
            updates[s] += 1
            update_steps[s].append(step)
    middle = samples // 2 // per_update * per_update
    # Pairs of samples and updates of three meet again after six.
    steady = range(middle, middle + (2 if case["schedule"] == "amdp" else 1) * per_update)
    delays = [max(late[s][i] for i in steady) for s in range(stages)]
    until = lambda s, i: sum(step < last_step[i] for step in update_steps[s])
    horizons = [(until(s, middle) - forward[s][middle], until(s, middle) - backward[s][middle])
                for s in range(stages)]
    if case["rule"] == "xpipe":
        m = per_update
        horizons = [(round((stages + m - s // 2 - 2) / m), round((m + s // 2 - 1) / m))
                    for s in range(stages)]
    if case.get("weight_stashing"):
        # SpecTrain's second version: forwards alone predict, to their update.
        horizons = [(delay, 0) for delay in delays]
    return timeline, forward, backward, delays, horizons


# ---- Training.


def own_step(case, s, w, g, t, history):
    """SGDM with spike compensation of each gradient by its own delay."""
    a, b = spike(MOMENTUM, case.delay)
    g = g + case.decay * w
    s["v"] = MOMENTUM * s.get("v", 0 * w) + a * g
    return w - RATE * (s["v"] + b * g), RATE * s["v"]


class StageWeights:
    """All versions of a stage's weights, and of what each look-ahead goes along."""

    def __init__(self, case, weights, delay, horizons, largest_delay):
        self.case, self.delay, self.horizons = case, delay, horizons
        values = case["values"]
        momentum = MOMENTUM
        if "deepest_momentum" in case:
            nearer = lambda m: m + delay * (case["deepest_momentum"] - m) / (largest_delay + 1)
            momentum = nearer(MOMENTUM)
            values = {**values, "beta1": nearer(values.get("beta1", 0.9))}
        if case["optimizer"] == "linear":
            values = values[str(delay)]
        self.cases = {name: Case(values, delay, case["rule"], case["weight_decay"])
                      for name in weights}
        for own in self.cases.values():
            own.momentum = momentum
        self.state = {name: {} for name in weights}
        # As matrices, which is what optimizers of matrices see.
        self.history = {name: [self.as_matrix(w)] for name, w in weights.items()}
        self.along = {name: [0 * w[0]] for name, w in self.history.items()}
        self.shapes = {name: w.shape for name, w in weights.items()}

    @staticmethod
    def as_matrix(w):
        return w if w.ndim < 2 else w.reshape(w.shape[0], -1)

    def horizon(self):
        rule, d = self.case["rule"], self.delay
        if "lwp" in rule:
            return d
        if rule == "msnag":
            m = self.case["values"].get("beta1", 0.9) if "adam" in self.case["optimizer"] else MOMENTUM
            return sum(m**k for k in range(1, d + 1))
        return 0

    def begin_update(self, update):
        """What the next update and the look-ahead of its passes are made for under random delays."""
        if self.case["schedule"] != "random-delay":
            return
        self.delay = float(np.dot(self.case["delays"], self.case["shares"]))
        if self.case["compensate"] == "own":
            self.delay = drawn_delay(self.case, update)
        for case in self.cases.values():
            case.delay = self.delay
            case.age = drawn_delay(self.case, update)

    def predicted(self, version, is_forward):
        weights = {}
        for name, history in self.history.items():
            w = history[version]
            if self.case["rule"] in ("spectrain", "xpipe"):
                w = w - self.horizons[0 if is_forward else 1] * self.along[name][version]
            elif is_forward and "lwp-w" in self.case["rule"]:
                w = w + self.horizon() * (w - history[max(0, version - 1)])
            elif is_forward:
                w = w - self.horizon() * self.along[name][version]
            weights[name] = w.reshape(self.shapes[name])
        return weights

    def for_backward(self, version):
        if self.case["optimizer"] != "pipemare":
            return self.predicted(version, is_forward=False)
        # Made with the newest version, which is the one that backwards read.
        return {name: self.state[name].get("backward", history[version]).reshape(self.shapes[name])
                for name, history in self.history.items()}

    def update(self, gradients):
        for name, history in self.history.items():
            # An optimizer counts its updates from 1.
            step = OPTIMIZERS[self.case["optimizer"]]
            if self.case.get("compensate") == "own" and "sc" in self.case["rule"].split("+"):
                step = own_step
            new, along = step(
                self.cases[name], self.state[name], history[-1], self.as_matrix(gradients[name]),
                len(history), history)
            history.append(new)
            self.along[name].append(along)


def softmax_loss(logits, label):
    """One label of all the numbers, or the mean over labels of a row each."""
    labels = np.atleast_1d(label)
    rows = logits.reshape(len(labels), -1)
    shifted = rows - rows.max(1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(1))
    gradient = np.exp(shifted - log_sums[:, None])
    each = np.arange(len(labels))
    gradient[each, labels] -= 1
    losses = log_sums - shifted[each, labels]
    return losses.mean(), gradient.reshape(logits.shape) / len(labels)


def clipped(case, gradients):
    """A stage's, each for itself, as torch.nn.utils.clip_grad_norm_ does."""
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
    factor = min(1, case.get("max_gradient_norm", math.inf) / (norm + 1e-6))
    return {name: factor * gradient for name, gradient in gradients.items()}


def run(case, data):
    network = NETWORKS[case["network"]]
    stages = len(network["stages"]) + 1
    images, labels = data["images"][case["network"]], data["labels"][case["network"]]
    timeline, forward, backward, delays, horizons = versions_of(case, stages, SAMPLES)
    weights = [StageWeights(case, w, delays[s], horizons[s], max(delays))
               for s, w in enumerate(data["weights"][case["network"]])]
    values = [{"input": image} for image in images]
    gradients = [{} for _ in images]  # of the values
    saved, used, sums, of_rows = {}, {}, [{} for _ in range(stages)], {}
    losses = []
    stashes = case.get("weight_stashing") or case["schedule"] in ("2bw", "random-delay")
    for _, s, kind, i in timeline:
        if kind == "F":
            if s == stages - 1:
                last = network["stages"][-1][0]
                loss, gradient = softmax_loss(values[i][last], labels[i])
                gradients[i][last] = case.get("gradient_shrink", 1) * gradient
                losses.append(float(loss))
                continue
            name, layers, inputs = network["stages"][s]
            weights[s].begin_update(i // case["batch"])
            used[s, i] = weights[s].predicted(forward[s][i], is_forward=True)
            x = values[i][inputs[0]]
            if not layers:
                x = sum(values[i][read] for read in inputs)
            kept = []
            p = {**used[s, i], "rows": used[0, i].get("wte.weight")}
            for layer in layers:
                x, keeps = layer.forward(p, x)
                kept.append(keeps)
            values[i][name], saved[s, i] = x, kept
        elif s == stages - 1:
            continue
        elif kind == "B":
            name, layers, inputs = network["stages"][s]
            p = used[s, i] if stashes else weights[s].for_backward(backward[s][i])
            dy = gradients[i].pop(name)
            for layer, keeps in zip(reversed(layers), reversed(saved.pop((s, i)))):
                dy, own = layer.backward(p, keeps, dy)
                # The rows' second use: its gradient is taken up where the embedding's own is made.
                if "rows" in own:
                    of_rows[i] = own.pop("rows")
                if "wte.weight" in own:
                    own["wte.weight"] = own["wte.weight"] + of_rows.get(i, 0)
                for tensor, gradient in own.items():
                    sums[s][tensor] = sums[s].get(tensor, 0) + gradient / case["batch"]
            for read in inputs:
                if read != "input":
                    # Every stage is a part of the pipeline.
                    handed = case.get("gradient_shrink", 1) * dy
                    gradients[i][read] = gradients[i].get(read, 0) + handed
        else:
            weights[s].update(clipped(case, sums[s]))
            sums[s] = {}
    return losses


def cases():
    def case(network="convolutions", schedule="pb", rule="sgdm", optimizer="sgdm", values=None,
             decay=0.01, batch=1, **more):
        return {"network": network, "schedule": schedule, "rule": rule, "optimizer": optimizer,
                "values": values or {}, "weight_decay": decay, "batch": batch, **more}

    # Quotients by delay: a lead that grows with it.
    quotients = {str(d): {"numerator": [1 + 0.05 * d, -0.5, 0.1 + 0.01 * d],
                          "denominator": np.poly([1, 0.6, 0.2 - 0.01 * d]).tolist()}
                 for d in range(0, 18)}
    optimizers = [
        ("adam", {"beta1": 0.8, "epsilon": 1e-2}),
        ("adamw", {"beta2": 0.95, "epsilon": 1e-2}),
        ("nadam", {"epsilon": 1e-2}),
        ("nadamw", {"beta1": 0.99, "epsilon": 1e-2}),
        ("adaptive-braking", {"braking": 0.7}),
        ("dc-asgd", {"delay_compensation": 0.5}),
        ("gap-aware", {}),
        ("pipemare", {"annealing_samples": 30, "discrepancy_decay": 0.135}),
        ("cgad", {"age_decay": 0.2}),
        ("muon", {"vector_lr_ratio": 0.3, "epsilon": 1e-2}),
        ("basis-rotation", {"vector_lr_ratio": 0.3, "epsilon": 1e-2}),
        ("linear", quotients),
    ]
    rules = ["sgdm", "nesterov", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag", "spectrain"]
    for network in ("mlp", "convolutions", "gpt"):
        yield from (case(network, rule=rule) for rule in rules)
        yield from (case(network, optimizer=name, values=values) for name, values in optimizers)
        yield case(network, "sequential", batch=4)
        yield case(network, "gpipe", batch=4)
        yield case(network, weight_stashing=True)
        yield case(network, weight_stashing=True, rule="lwp-w+sc")
        yield case(network, "1f1b")
        yield case(network, "1f1b", weight_stashing=True)
        yield case(network, "1f1b", rule="lwp-v+sc")
        yield case(network, "1f1b", rule="spectrain")
        yield case(network, "1f1b", rule="spectrain", weight_stashing=True)
        yield case(network, weight_stashing=True, vertical_sync=True, rule="lwp-v")
        yield case(network, "1f1b", weight_stashing=True, vertical_sync=True)
        yield case(network, "1f1b", rule="xpipe")
        yield case(network, "paci", batch=2, rule="xpipe")
        yield case(network, "paci", batch=3)
        yield case(network, "paci", batch=2, rule="sc")
        yield case(network, "paci", batch=4, weight_stashing=True)
        yield case(network, "amdp")
        yield case(network, "amdp", batch=3, rule="lwp-v+sc")
        yield case(network, "2bw", batch=12, rule="lwp-v")
        yield case(network, optimizer="ema-nesterov", values={"mean_decay": 0.8}, rule="lwp-v")
        yield case(network, "uniform-delay", lag=3)
        yield case(network, "uniform-delay", lag=3, batch=4, weight_stashing=True, rule="lwp-v+sc")
    yield from (case("gpt-tied", rule=rule) for rule in ("sgdm", "lwp-w+sc", "spectrain"))
    yield case("gpt-tied", optimizer="adamw", values={"epsilon": 1e-2}, rule="lwp-v+sc")
    yield case("gpt-tied", optimizer="muon", values={"vector_lr_ratio": 0.3, "epsilon": 1e-2})
    yield case("gpt-tied", "sequential", batch=4)
    yield case("gpt-tied", weight_stashing=True, rule="lwp-v")
    yield case("gpt-tied", "1f1b", rule="sc")
    yield case("gpt-tied", "paci", batch=2)
    yield case("gpt-tied", "amdp", batch=3)
    yield case("gpt-tied", "2bw", batch=12, rule="lwp-v")
    yield case("gpt-tied", "uniform-delay", lag=3)
    yield case(optimizer="adamw", values={"epsilon": 1e-2}, rule="lwp-v+sc")
    yield case(optimizer="nadam", values={"epsilon": 1e-2}, rule="sc")
    yield case("mlp", "1f1b", optimizer="adam", values={"epsilon": 1e-2}, rule="xpipe")
    yield case(optimizer="nadam", values={"epsilon": 1e-2}, rule="msnag")
    yield case("mlp", optimizer="dc-asgd", values={"delay_compensation": 0.5}, rule="lwp-v")
    yield case("mlp", optimizer="ema-nesterov", values={"mean_decay": 0.9}, rule="lwp-v+sc",
               weight_stashing=True)
    yield case("mlp", "1f1b", rule="sc", deepest_momentum=0.95)
    yield case("mlp", "1f1b", optimizer="nadamw", values={"epsilon": 1e-2}, deepest_momentum=0.99,
               weight_stashing=True)
    yield case("mlp", gradient_shrink=0.3)
    yield case("mlp", "1f1b", gradient_shrink=0.2, weight_stashing=True)
    for network in ("mlp", "convolutions", "gpt"):
        yield case(network, rule="lwp-v+sc", max_gradient_norm=0.3)
        yield case(network, "gpipe", optimizer="adaptive-braking", values={"braking": 0.7}, batch=4,
                   max_gradient_norm=0.2)

    def random(compensate, rule, network="mlp", **more):
        return case(network, "random-delay", rule=rule, compensate=compensate, seed=5,
                    **({"delays": list(range(5)), "shares": [0.2] * 5} | more))

    for compensate in ("mean", "own"):
        for rule in ("sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc"):
            yield random(compensate, rule)
        yield random(compensate, "lwp-w+sc", "convolutions", batch=4)
        yield random(compensate, "lwp-v+sc", delays=[0, 1, 6], shares=[0.5, 0.3, 0.2])
        yield random(compensate, "lwp-v", optimizer="adamw", values={"epsilon": 1e-2})
    yield random("mean", "sc", optimizer="adam", values={"epsilon": 1e-2})
    yield random("own", "sgdm", optimizer="dc-asgd", values={"delay_compensation": 0.5})
    yield random("mean", "sgdm", optimizer="cgad", values={"age_decay": 0.3})
    yield random("own", "lwp-v", optimizer="ema-nesterov", values={"mean_decay": 0.9})


def make():
    random = np.random.default_rng(7)
    labels = random.integers(0, CLASSES, SAMPLES)
    data = {"images": {}, "weights": {}, "labels": {}}
    bytes_of = {}
    for name, network in NETWORKS.items():
        if name == "gpt-tied":
            for kind in ("images", "labels"):
                data[kind][name] = data[kind]["gpt"]
            data["weights"][name] = data["weights"]["gpt"][:-2] + [{}, {}]
            continue
        if name == "gpt":
            # Windows of one text, each token's label the next one.
            tokens = random.integers(0, SYMBOLS, SAMPLES * TOKENS + 1)
            data["images"][name] = tokens[:-1].reshape(SAMPLES, TOKENS)
            data["labels"][name] = tokens[1:].reshape(SAMPLES, TOKENS)
            data["weights"][name] = initial_weights(network, random)
            continue
        data["labels"][name] = labels
        pixels = random.integers(0, 256, (SAMPLES, *network["input"]))
        bytes_of[name] = [image.ravel().tolist() for image in pixels]
        # As the trainer reads them, in single precision.
        scaled = (pixels.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
        data["images"][name] = scaled.astype(np.float64)
        data["weights"][name] = initial_weights(network, random)
    results = [{**case, "losses": run(case, data)} for case in cases()]
    return {
        "rate": RATE, "momentum": MOMENTUM, "classes": CLASSES,
        "labels": labels.tolist(), "pixels": bytes_of,
        "symbols": SYMBOLS, "context": TOKENS, "tokens": tokens.tolist(),
        "weights": {name: {tensor: w.ravel().tolist() for stage in stages for tensor, w in stage.items()}
                    for name, stages in data["weights"].items()},
        "cases": results,
    }


def text_of(made):
    """JSON with one line for each list of numbers."""
    text = json.dumps(made, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found.group()), text) + "\n"


def main():
    made = make()
    if "--check" not in sys.argv:
        FILE.write_text(text_of(made))
        return 0
    old, new = json.loads(FILE.read_text()), json.loads(json.dumps(made))
    pairs = list(zip(old.pop("cases"), new.pop("cases"), strict=True))
    same = differ_by_at_most(TOLERANCE, old, new) and all(
        differ_by_at_most(
            EIGENBASIS_TOLERANCE if case["optimizer"] == "basis-rotation" else TOLERANCE, case, made)
        for case, made in pairs)
    print("the same" if same else "different")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
