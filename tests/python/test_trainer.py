"""Trainer against the program's runs, and samples learned one by one."""

import csv
import hashlib
import json
import os
import pickle
import resource
import shutil
import threading
import time

import batchless
import numpy
import pytest
from batchless import toml
from conftest import output_of

TINY = {
    "network": {"name": "mlp", "hidden": [24, 16]},
    "data": {"name": "synthetic", "limit_train": 60, "limit_validation": 20},
    "schedule": {"kind": "pb"},
    "rule": {"name": "lwp-v+sc"},
    "optimizer": {"batch": 1, "lr": 1e-4, "momentum": 0.99, "decay_points": [0.5]},
    "run": {"samples": 150, "log_every_samples": 25, "validate_every_samples": 60, "seed": 3},
}

NETWORK = {
    "name": "own",
    "input": [1, 4, 4],
    "classes": 3,
    "stage": [
        {"name": "conv", "layers": [{"kind": "convolution", "channels": 4, "kernel": 3, "padding": 1}]},
        {"name": "fc", "layers": [{"kind": "linear", "features": 3}]},
        {"name": "loss", "layers": ["loss"]},
    ],
}


def as_toml(values):
    lines = []
    for section, keys in values.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in keys.items())]
    return "\n".join(lines) + "\n"


def synthetic_samples(count):
    """Images that carry their label, at random."""
    random = numpy.random.default_rng(1)
    y = random.integers(0, 10, count)
    x = random.standard_normal((count, 3, 32, 32), dtype=numpy.float32)
    x[numpy.arange(count), 0, 0, y] += 5
    return x, y


IMAGES = numpy.zeros((2, 3, 32, 32), numpy.float32)


def own_trainer(**keywords):
    settings = dict(network={"name": "mlp", "hidden": [24, 16]}, schedule="pb", rule="sc", lr=1e-4,
                    momentum=0.99, batch=1)
    return batchless.Trainer(**{**settings, **keywords})


@pytest.mark.parametrize("kind", ["dict", "text", "path", "keywords", "phases"])
def test_run_has_the_programs_bits_and_rows(kind, program, tmp_path):
    text = as_toml(TINY)
    if kind == "phases":
        text += '[[phase]]\nuntil = 0.4\n[[phase]]\nschedule.kind = "sequential"\n'
    path = tmp_path / "tiny.toml"
    path.write_text(text)
    expected = program("train", path, "--out", tmp_path / "program")
    if kind == "phases":
        phases = [{"until": 0.4}, {"schedule": {"kind": "sequential"}}]
        trainer = batchless.Trainer({**TINY, "phase": phases})
    elif kind == "keywords":
        flat = {name: TINY["optimizer"][name] for name in ("batch", "lr", "momentum", "decay_points")}
        trainer = batchless.Trainer(network=TINY["network"], data=TINY["data"], schedule="pb",
                                    rule="lwp-v+sc", run=TINY["run"], **flat)
    else:
        trainer = batchless.Trainer({"dict": TINY, "text": text, "path": path}[kind])
    seen = []
    rows = list(trainer.run(progress=lambda done, total: seen.append((done, total))))
    assert trainer.weights_sha256 == expected["weights_sha256"]
    with open(tmp_path / "program" / "metrics.csv") as file:
        written = [{name: float(v) if v else None for name, v in row.items()} for row in csv.DictReader(file)]
    assert [row.to_dict() for row in rows] == written
    assert seen[-1] == (150, 150)
    summary = trainer.summary()
    for name in ("validation_loss", "train_loss", "delays", "samples", "updates", "parameters"):
        assert summary[name] == expected[name]
    assert trainer.delays.tolist() == expected["delays"]
    assert list(trainer.run()) == []
    assert pickle.loads(pickle.dumps(rows)) == rows
    assert pickle.loads(pickle.dumps(summary)) == summary


def test_folder_is_the_programs(program, tmp_path):
    (tmp_path / "tiny.toml").write_text(as_toml(TINY))
    program("train", tmp_path / "tiny.toml", "--out", tmp_path / "program")
    trainer = batchless.Trainer(TINY, out=tmp_path / "python")
    next(trainer.run())
    del trainer
    trainer = batchless.Trainer(TINY, out=tmp_path / "python", resume=True)
    list(trainer.run())
    digest = trainer.weights_sha256
    del trainer  # The folder is free then.
    for name in ("metrics.csv", "config.toml"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "program" / name).read_bytes()
    # Nothing is left for the program.
    (tmp_path / "tiny.toml").write_text(as_toml(TINY))
    again = program("train", tmp_path / "tiny.toml", "--out", tmp_path / "python", "--resume")
    assert again["weights_sha256"] == digest


@pytest.mark.parametrize("samples", [None, 40])
def test_learning_one_by_one_or_together_is_the_same(samples):
    x, y = synthetic_samples(40)
    one, together = (own_trainer(**({"samples": samples} if samples else {})) for _ in range(2))
    assert one.total_samples == samples
    results = [result for image, label in zip(x, y) for result in one.learn(image, int(label))]
    results += one.finish()
    assert [result.sample for result in results] == list(range(40))
    assert [result.label for result in results] == y.tolist()
    # Not contiguous, and labels of another kind.
    strided = numpy.asfortranarray(x)
    assert together.learn(strided, y.astype(numpy.uint8)) + together.finish() == results
    assert together.weights_sha256 == one.weights_sha256
    assert one.samples == one.total_samples == 40
    with pytest.raises(ValueError, match="^samples: got 41, accepted: at most 40"):
        one.learn(x[0], 0)


def test_learning_learns():
    x, y = synthetic_samples(600)
    trainer = own_trainer(rule="sgdm", lr=2e-4, momentum=0.9)
    before = trainer.evaluate(x, y)
    for _ in range(3):
        trainer.learn(x, y)
    after = trainer.evaluate(x, y)
    assert after.samples == 600
    assert after.loss < 0.7 * before.loss and after.accuracy > before.accuracy + 0.2


def test_trainers_of_the_same_weights_learn_the_same():
    one = own_trainer(seed=1)
    other = own_trainer(seed=2)
    assert one.weights_sha256 != other.weights_sha256
    other.weights = one.weights
    assert other.weights_sha256 == one.weights_sha256
    x, y = synthetic_samples(9)
    assert one.learn(x, y) == other.learn(x, y)


@pytest.mark.parametrize(
    "laid_out",
    [
        numpy.asfortranarray,
        lambda array: numpy.repeat(array, 2, axis=0)[::2],
        lambda array: numpy.ascontiguousarray(array.T).T,
        lambda array: array.astype(">f8"),
    ],
)
def test_weights_are_taken_by_their_places_not_by_memory(laid_out):
    one, other = own_trainer(seed=1), own_trainer(seed=2)
    taken = {name: laid_out(array) for name, array in one.weights.items()}
    kept = {name: array.copy() for name, array in taken.items()}
    other.weights = taken
    assert other.weights_sha256 == one.weights_sha256
    assert all((taken[name] == kept[name]).all() for name in kept)


@pytest.mark.parametrize("batch, schedule", [(1, "pb"), (4, "sequential")])
def test_saved_state_goes_on_to_the_same_bits(batch, schedule, tmp_path):
    x, y = synthetic_samples(30)
    settings = dict(batch=batch, schedule=schedule, rule="sgdm")
    whole = own_trainer(**settings)
    expected = whole.learn(x, y) + whole.finish()
    first = own_trainer(**settings)
    results = first.learn(x[:13], y[:13])
    first.save(tmp_path / "state")
    second = own_trainer(**settings)
    second.load(tmp_path / "state")
    assert second.samples == first.samples
    results += second.learn(x[13:], y[13:]) + second.finish()
    assert results == expected
    assert second.weights_sha256 == whole.weights_sha256
    with pytest.raises(ValueError, match="^optimizer.lr: got 0.002, accepted: 1e-04"):
        own_trainer(**settings, lr=0.002).load(tmp_path / "state")
    with pytest.raises(ValueError, match="^path: got .*nothing, accepted: a checkpoint"):
        second.load(tmp_path / "nothing")


@pytest.mark.parametrize("samples", [None, 40])
def test_no_checkpoint_is_made_of_a_pipeline_that_was_emptied(samples, tmp_path):
    x, y = synthetic_samples(40)
    trainer = own_trainer(**({"samples": samples} if samples else {}))
    trainer.learn(x[:13], y[:13])
    trainer.save(tmp_path / "before")
    trainer.finish()
    with pytest.raises(ValueError, match="^path: got .*after, accepted: a checkpoint of before the run was finished, "
                                         "at sample 13"):
        trainer.save(tmp_path / "after")
    assert not (tmp_path / "after").exists()
    trainer.load(tmp_path / "before")
    assert trainer.samples == 13
    # Nothing is in flight at the run's own end, nor between mini-batches.
    trainer.learn(x[13:], y[13:])
    if samples:
        trainer.finish()
        trainer.save(tmp_path / "after")
        own_trainer(samples=samples).load(tmp_path / "after")
    batches = own_trainer(batch=4, schedule="sequential", rule="sgdm")
    batches.learn(x[:8], y[:8])
    batches.finish()
    batches.save(tmp_path / "batches")
    again = own_trainer(batch=4, schedule="sequential", rule="sgdm")
    again.load(tmp_path / "batches")
    assert again.samples == 8


def test_a_folder_goes_on_from_before_its_pipeline_was_emptied(tmp_path):
    whole = batchless.Trainer(TINY)
    list(whole.run())
    trainer = batchless.Trainer(TINY, out=tmp_path / "run", log_samples=True)
    list(trainer.run(60))
    trainer.save(tmp_path / "before")
    trainer.finish()
    assert list(trainer.run()) == []
    with open(tmp_path / "run" / "samples.csv") as file:
        assert len(list(csv.DictReader(file))) == trainer.samples == 60
    del trainer
    trainer = batchless.Trainer(TINY, out=tmp_path / "run", log_samples=True, resume=True)
    assert trainer.samples == 60
    # The same where it is loaded, or nothing has run yet.
    trainer.load(tmp_path / "before")
    trainer.finish()
    assert list(trainer.run()) == []
    del trainer
    trainer = batchless.Trainer(TINY, out=tmp_path / "run", log_samples=True, resume=True)
    list(trainer.run())
    assert trainer.weights_sha256 == whole.weights_sha256
    empty = batchless.Trainer(TINY, out=tmp_path / "empty")
    assert empty.finish() == []
    assert list(empty.run()) == []


def test_a_folder_without_micro_batches_in_flight_goes_on_from_the_end(tmp_path):
    x, y = synthetic_samples(8)
    settings = dict(schedule={"kind": "sequential"}, rule="sgdm")
    trainer = batchless.Trainer(TINY, out=tmp_path / "run", **settings)
    trainer.learn(x, y)
    trainer.finish()
    assert list(trainer.run()) == []
    digest = trainer.weights_sha256
    del trainer
    again = batchless.Trainer(TINY, out=tmp_path / "run", resume=True, **settings)
    assert again.samples == 8 and again.weights_sha256 == digest


def test_what_was_learned_before_a_run_has_a_checkpoint(tmp_path):
    x, y = synthetic_samples(13)
    whole = batchless.Trainer(TINY)
    whole.learn(x, y)
    list(whole.run())
    trainer = batchless.Trainer(TINY, out=tmp_path / "run", checkpoint_every_samples=10**6)
    trainer.learn(x, y)
    next(trainer.run())
    # As if it had been killed: nothing is kept of the rest.
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    again = batchless.Trainer(TINY, out=tmp_path / "copy", checkpoint_every_samples=10**6, resume=True)
    assert again.samples == 13
    list(again.run())
    assert again.weights_sha256 == whole.weights_sha256


def test_what_is_refused_leaves_all_of_it_untrained():
    x, y = synthetic_samples(8)
    trainer, other = (own_trainer(samples=10) for _ in range(2))
    bad = x.copy()
    bad[4, 1, 2, 3] = numpy.nan
    with pytest.raises(ValueError, match="^x: got nan"):
        trainer.learn(bad, y)
    assert trainer.samples == 0
    assert trainer.learn(x, y) == other.learn(x, y)
    with pytest.raises(ValueError, match="^samples: got 16, accepted: at most 10, which the run has"):
        trainer.learn(x, y)
    assert trainer.samples == 8
    assert trainer.weights_sha256 == other.weights_sha256


def test_learning_counts_in_the_speed():
    x, y = synthetic_samples(300)
    trainer = own_trainer()
    start = time.perf_counter()
    trainer.learn(x, y)
    seconds = time.perf_counter() - start
    speed = trainer.summary().samples_per_second
    assert 300 / seconds <= speed
    assert trainer.summary().training_seconds > 0


LOGGED = {**TINY, "run": {**TINY["run"], "log_samples": True}}
LOGS = ("metrics.csv", "samples.csv", "config.toml")


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def check_end(trainer, folder, whole, program):
    """The trainer's run has ended in the folder as the one in `whole` has."""
    assert trainer.weights_sha256 == json.loads((whole / "summary.json").read_text())["weights_sha256"]
    for name in LOGS:
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert program("compare", folder, whole)["runs"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The rows and the folder of a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return list(batchless.Trainer(LOGGED, out=folder).run()), folder


def write_digits(root, seed):
    """MNIST's files of 20 images."""
    (root / "mnist").mkdir(parents=True)
    random = numpy.random.default_rng(seed)
    for prefix in ("train", "t10k"):
        images = numpy.array([0x803, 20, 28, 28], ">u4").tobytes() + random.bytes(20 * 28 * 28)
        labels = numpy.array([0x801, 20], ">u4").tobytes() + bytes(i % 10 for i in range(20))
        (root / f"mnist/{prefix}-images-idx3-ubyte").write_bytes(images)
        (root / f"mnist/{prefix}-labels-idx1-ubyte").write_bytes(labels)


def damaged_state(checkpoint):
    """A checkpoint whose checksum is right and whose trainer's state ends too early."""
    body = checkpoint.read_bytes()[:-165]
    damaged = checkpoint.with_name("damaged")
    damaged.write_bytes(body + hashlib.sha256(body).hexdigest().encode() + b"\n")
    return damaged


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_refused_checkpoint_changes_nothing(has_folder, tmp_path):
    for seed in (1, 2):
        write_digits(tmp_path / f"digits{seed}", seed)

    def trainer(seed, out=None):
        settings = {**LOGGED, "data": {"name": "mnist", "root": str(tmp_path / f"digits{seed}")}}
        phases = [{"until": 0.4}, {"schedule": {"kind": "sequential"}}]
        return batchless.Trainer({**settings, "phase": phases}, out=out)

    other = trainer(2)
    list(other.run(100))
    other.save(tmp_path / "other")
    undisturbed = trainer(1, tmp_path / "undisturbed" if has_folder else None)
    expected = list(undisturbed.run())
    undisturbed.save(tmp_path / "end")
    disturbed = trainer(1, tmp_path / "disturbed" if has_folder else None)
    rows = list(disturbed.run(1))
    before = disturbed.weights_sha256, disturbed.samples, disturbed.summary().samples
    files = files_of(tmp_path / "disturbed")
    refusals = {"other": "^data.root: got .*digits1, accepted: the data", "damaged": "^path: got .*the trainer's state is damaged"}
    damaged_state(tmp_path / "end")
    if has_folder:
        refusals["end"] = "^path: got .*end, accepted: a checkpoint whose rows are in .*disturbed"
        refusals["damaged"] = refusals["end"].replace("got .*end", "got .*damaged")
    for name, line in refusals.items():
        with pytest.raises(ValueError, match=line):
            disturbed.load(tmp_path / name)
        assert (disturbed.weights_sha256, disturbed.samples, disturbed.summary().samples) == before
        # The rows of samples may have gone to the file.
        assert {**files_of(tmp_path / "disturbed"), "samples.csv": 0} == {**files, "samples.csv": 0}
    assert rows + list(disturbed.run()) == expected
    assert disturbed.weights_sha256 == undisturbed.weights_sha256
    if has_folder:
        for name in LOGS[:2]:
            assert (tmp_path / "disturbed" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def begun(folder, out=None, samples=60):
    """A run, its rows so far, and a checkpoint of it in the folder: `middle`."""
    trainer = batchless.Trainer(LOGGED, out=out)
    rows = list(trainer.run(samples))
    trainer.save(folder / "middle")
    return trainer, rows


@pytest.mark.parametrize("progress, has_folder", [
    *((progress, has_folder) for progress in ("some", "to the end", "diverged") for has_folder in (False, True)),
    ("resumed", True),
])
def test_a_checkpoint_takes_a_run_back(progress, has_folder, whole, program, tmp_path):
    expected, folder = whole
    out = tmp_path / "run" if has_folder else None
    trainer, rows = begun(tmp_path, out)
    if progress == "some":
        next(trainer.run())
    elif progress == "to the end":
        list(trainer.run())
    elif progress == "resumed":
        list(trainer.run())
        del trainer
        trainer = batchless.Trainer(LOGGED, out=out, resume=True)
    else:
        trainer.weights = {name: numpy.full_like(value, 1e38) for name, value in trainer.weights.items()}
        with pytest.raises(RuntimeError, match="diverged|not finite"):
            list(trainer.run())
    for _ in range(2):
        trainer.load(tmp_path / "middle")
        assert trainer.samples == trainer.summary().samples == rows[-1].samples
        assert trainer.summary().diverged is None
        assert rows + list(trainer.run()) == expected
        assert list(trainer.run()) == []
    assert trainer.weights_sha256 == json.loads((folder / "summary.json").read_text())["weights_sha256"]
    if has_folder:
        check_end(trainer, out, folder, program)


def test_a_run_that_was_taken_back_can_be_interrupted(whole, program, tmp_path):
    expected, folder = whole
    trainer, _ = begun(tmp_path, tmp_path / "run")
    list(trainer.run())
    trainer.load(tmp_path / "middle")
    next(trainer.run())
    assert not {"SHA256SUMS", "summary.json"} & files_of(tmp_path / "run").keys()
    del trainer
    trainer = batchless.Trainer(LOGGED, out=tmp_path / "run", resume=True)
    assert trainer.samples == 60
    list(trainer.run())
    check_end(trainer, tmp_path / "run", folder, program)


def test_a_checkpoint_in_the_folder_of_another_run(whole, program, tmp_path):
    expected, folder = whole
    begun(tmp_path, tmp_path / "first")
    new = batchless.Trainer(LOGGED, out=tmp_path / "second")
    initial = new.weights_sha256
    for checkpoint in (tmp_path / "middle", folder / "checkpoint"):
        with pytest.raises(ValueError, match="^path: got .*, accepted: a checkpoint whose rows are in .*second "
                                             r"\(there is no metrics.csv\); load this one with the out of its "
                                             "own run and resume=True, or without out$"):
            new.load(checkpoint)
    assert new.weights_sha256 == initial and new.samples == 0 and not (tmp_path / "second").exists()
    assert list(new.run()) == expected
    check_end(new, tmp_path / "second", folder, program)
    # Now its rows are there.
    new.load(tmp_path / "middle")
    list(new.run())
    check_end(new, tmp_path / "second", folder, program)


@pytest.mark.parametrize("samples", [60, None])
def test_a_checkpoint_of_a_run_without_a_folder_begins_one(samples, whole, program, tmp_path):
    expected, folder = whole
    _, rows = begun(tmp_path, samples=samples)
    new = batchless.Trainer(LOGGED, out=tmp_path / "run")
    for _ in range(2):
        new.load(tmp_path / "middle")
        assert rows + list(new.run()) == expected
        assert new.weights_sha256 == json.loads((folder / "summary.json").read_text())["weights_sha256"]
        assert (tmp_path / "run/config.toml").read_bytes() == (folder / "config.toml").read_bytes()
        assert len((tmp_path / "run/metrics.csv").read_text().splitlines()) == 1 + len(expected) - len(rows)
        program("report", tmp_path / "run")
    del new
    other = batchless.Trainer(LOGGED, out=tmp_path / "other")
    next(other.run())
    with pytest.raises(ValueError, match=r"\(it is of a run without a folder, and there are rows of another one\)"):
        other.load(tmp_path / "middle")
    assert list(other.run())[-1] == expected[-1]
    check_end(other, tmp_path / "other", folder, program)


def test_a_run_begins_again_from_its_beginning(whole, program, tmp_path):
    expected, folder = whole
    trainer = batchless.Trainer(LOGGED, out=tmp_path / "run")
    trainer.save(tmp_path / "beginning")
    list(trainer.run())
    trainer.load(tmp_path / "beginning")
    assert list(trainer.run()) == expected
    check_end(trainer, tmp_path / "run", folder, program)


def test_learning_goes_on_from_a_checkpoint_after_the_end(tmp_path):
    x, y = synthetic_samples(30)
    trainer = own_trainer()
    trainer.learn(x[:13], y[:13])
    trainer.save(tmp_path / "state")
    rest = trainer.learn(x[13:], y[13:]) + trainer.finish()
    digest = trainer.weights_sha256
    assert trainer.total_samples == 30
    trainer.load(tmp_path / "state")
    assert trainer.samples == 13 and trainer.total_samples is None
    assert trainer.learn(x[13:], y[13:]) + trainer.finish() == rest
    assert trainer.weights_sha256 == digest


@pytest.mark.parametrize("learned", [20, 12])
def test_a_run_that_is_learned_to_its_end_leaves_its_last_row_and_checkpoint(learned, tmp_path):
    settings = dict(out=tmp_path / "run", samples=20, log_every_samples=8, log_samples=True)
    trainer = batchless.Trainer(TINY, **settings)
    rows = list(trainer.run(20 - learned)) if learned < 20 else []
    x, y = synthetic_samples(learned)
    trainer.learn(x, y)
    rows += trainer.run()
    assert rows[-1].samples == 20 and rows[-1].validation_loss > 0
    assert list(trainer.run()) == []
    digest = trainer.weights_sha256
    del trainer
    again = batchless.Trainer(TINY, resume=True, **settings)
    assert again.samples == 20 and again.weights_sha256 == digest
    assert list(again.run()) == []


def test_a_folder_at_work_is_refused_each_time(tmp_path):
    script = f"""
import batchless, os
first, second = (batchless.Trainer({TINY!r}, out={str(tmp_path / 'run')!r}) for _ in range(2))
next(first.run())
open_files = len(os.listdir("/proc/self/fd"))
for _ in range(3):
    try:
        list(second.run())
    except ValueError as error:
        print(str(error).endswith("another run is at work in it)"), second.samples)
assert len(os.listdir("/proc/self/fd")) == open_files
"""
    assert output_of(script) == "True 0\n" * 3


def test_a_folder_that_was_filled_since_is_refused(tmp_path):
    first, second = (batchless.Trainer(TINY, out=tmp_path / "run") for _ in range(2))
    list(first.run())
    del first
    before = files_of(tmp_path / "run")
    for _ in range(2):
        with pytest.raises(ValueError, match="^out: got .*, accepted: a folder without a run in it"):
            list(second.run())
    assert files_of(tmp_path / "run") == before


def test_network_of_the_users_own(tmp_path):
    """As a dict, a text and a file, of a shape that no data set has."""
    text = toml.to_document(NETWORK)
    path = tmp_path / "own.toml"
    path.write_text(text)
    digests = set()
    for network in (NETWORK, text, path, str(path)):
        trainer = batchless.Trainer(network=network, schedule="pb", batch=1, lr=1e-2, momentum=0.9)
        assert trainer.input_shape == (1, 4, 4) and trainer.classes == 3
        x = numpy.random.default_rng(2).standard_normal((20, 1, 4, 4), dtype=numpy.float32)
        results = trainer.learn(x, numpy.arange(20) % 3)
        trainer.save(tmp_path / "state")
        assert len(results + trainer.finish()) == 20
        digests.add(trainer.weights_sha256)
    assert len(digests) == 1
    with pytest.raises(ValueError, match="^network.file: got the text, for 1x4x4 and 3 classes"):
        batchless.Trainer(network=NETWORK, data="synthetic")
    with pytest.raises(ValueError, match="the text:.*stage"):
        batchless.Trainer(network={**NETWORK, "stage": []})


def test_the_program_goes_on_with_a_network_given_as_text(program, tmp_path):
    out = tmp_path / "run"
    images = {**NETWORK, "input": [3, 32, 32], "classes": 10,
              "stage": [{"name": "fc", "layers": [{"kind": "linear", "features": 10}]}, NETWORK["stage"][-1]]}
    settings = dict(network=images, data=TINY["data"], run=TINY["run"], batch=1, lr=1e-4)
    with pytest.raises(ValueError, match="^momentum: got 2|^optimizer.momentum: got 2"):
        batchless.Trainer(**settings, momentum=2.0, out=out)
    assert not out.exists()
    whole = batchless.Trainer(**settings)
    list(whole.run())
    trainer = batchless.Trainer(**settings, out=out)
    next(trainer.run())
    del trainer
    # Another network is refused, and leaves nothing.
    before = files_of(out)
    other = {**images, "stage": [{**images["stage"][0], "name": "head"}, images["stage"][1]]}
    with pytest.raises(ValueError, match="^network.file: got the text, accepted: the network that"):
        batchless.Trainer(**{**settings, "network": other}, out=out, resume=True)
    assert files_of(out) == before
    summary = program("train", out / "config.toml", "--out", out, "--resume")
    assert summary["weights_sha256"] == whole.weights_sha256
    again = batchless.Trainer(**settings, out=out, resume=True)
    assert again.weights_sha256 == whole.weights_sha256


def test_weights_go_out_and_in():
    trainer = own_trainer()
    weights = trainer.weights
    assert all(value.dtype == numpy.float32 for value in weights.values())
    assert sum(value.size for value in weights.values()) == trainer.summary().parameters
    assert trainer.weights().keys() == weights.keys()
    name = next(iter(weights))
    weights[name] = weights[name] + numpy.float32(0.5)
    trainer.weights = weights
    assert trainer.weights[name].tobytes() == weights[name].tobytes()
    with pytest.raises(ValueError, match=f"^{name}: got shape"):
        trainer.weights = {**weights, name: weights[name][:-1]}
    double = own_trainer(precision="double")
    assert all(value.dtype == numpy.float64 for value in double.weights.values())
    predicted = trainer.predict_memory()
    assert abs(predicted.total_bytes / predicted.allocated_bytes - 1) < 0.1


@pytest.mark.parametrize(
    "make, line",
    [
        (lambda: own_trainer(lr=-1), "optimizer.lr: got -1, accepted: "),
        (lambda: own_trainer(schedule="pbb"), "schedule.kind: got pbb, accepted: "),
        (lambda: own_trainer(rule={"sc_a": "x"}), "rule.sc_a: got \"x\", accepted: "),
        (lambda: own_trainer(momentum=1), "optimizer.momentum: got 1, accepted: "),
        (lambda: own_trainer(decay_points=[0.5]), r"optimizer.decay_points: got \[0.5\], accepted: run.samples"),
        (lambda: own_trainer(epochs=2), "run.epochs: got 2, accepted: run.samples"),
        (lambda: own_trainer(optimizer={"lr": 0.1}), "optimizer.lr: got 0.0001 and 0.1, accepted: one value"),
        (lambda: own_trainer(out="x"), "data.name: got own, accepted: a data set"),
        (lambda: batchless.Trainer("[optimizer]\nlr = 2e9\n"), "configuration:2: optimizer.lr: got"),
        (lambda: batchless.Trainer("nowhere.toml"), "configuration: got nowhere.toml, accepted: "),
        (lambda: batchless.Trainer({"optimiser": {}}), "optimiser: got a section, accepted: network, "),
        (lambda: own_trainer().run(), "data.name: got own, accepted: a data set, for run"),
        (lambda: batchless.Trainer(network="gpt", data="markov", samples=8).evaluate(IMAGES, [1, 2]),
         "x: got samples of your own, accepted: those of a data set, as gpt takes 128 labels of each"),
        (lambda: own_trainer().learn(numpy.zeros((3, 32, 32)), 1), "x: got float64, accepted: float32"),
        (lambda: own_trainer().learn(numpy.zeros((3, 32), numpy.float32), 1),
         r"x: got shape \(3, 32\), accepted: \(3, 32, 32\)"),
        (lambda: own_trainer().learn(numpy.zeros((3, 32, 32), numpy.float32), 10), "y: got 10, accepted: an integer from 0 to 9"),
        (lambda: own_trainer().learn(numpy.zeros((3, 32, 32), numpy.float32), 1.5), "y: got float64, accepted"),
        (lambda: own_trainer().learn(numpy.zeros((2, 3, 32, 32), numpy.float32), [1]), r"y: got shape \(1,\)"),
        (lambda: own_trainer().learn(numpy.full((3, 32, 32), numpy.nan, numpy.float32), 1), "x: got nan, accepted: finite"),
        (lambda: own_trainer().evaluate(), "x: got nothing, accepted: images"),
        (lambda: batchless.Trainer(TINY).evaluate(y=[1]), "x: got nothing, accepted: images"),
        (lambda: own_trainer().evaluate(IMAGES), "y: got nothing, accepted: an integer for each image"),
        (lambda: own_trainer().learn(IMAGES, None), "y: got nothing, accepted: an integer for each image"),
        (lambda: own_trainer().learn(IMAGES, "a"), "y: got text, accepted: an integer"),
        (lambda: own_trainer().learn(IMAGES, [[1], [1, 2]]), "y: got list, accepted: an integer"),
        (lambda: own_trainer().learn(None, 3), "x: got nothing, accepted: float32"),
        (lambda: own_trainer().learn(IMAGES.tolist(), 3), "x: got float64, accepted: float32"),
        (lambda: own_trainer().learn([[1], [1, 2]], 3), "x: got list, accepted: float32"),
        (lambda: own_trainer().save("/nowhere/x"), r"path: got /nowhere/x, accepted: .*\(there is no such folder\)"),
        (lambda: own_trainer().save("."), r"path: got \., accepted: .*\(this is a folder\)"),
        (lambda: own_trainer().save("x\0y"), "path: got "),
        (lambda: own_trainer().load(__file__), r"path: got .*py, accepted: a checkpoint of this program \("),
        (lambda: batchless.Trainer(TINY, resume=True), "resume: got True, accepted: it together with out"),
        (lambda: batchless.Trainer(TINY, out="x\0y"), "out: got "),
        (lambda: own_trainer(data={"name": "cifar10", "root": "/no/\U0001f600"}),
         "data.root: got /no/\U0001f600, accepted: a folder with"),
        (lambda: own_trainer(data={"name": "cifar10", "root": "/no/\udcff"}),
         r"data.root: got '/no/\\udcff', accepted: a text in UTF-8"),
        (lambda: own_trainer(rule="sc\0x"), r"rule.name: got 'sc\\x00x', accepted: a text without NUL"),
    ],
)
def test_refusals_name_the_argument(make, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="^" + line):
        make()


@pytest.mark.parametrize(
    "change, got",
    [
        (lambda array: array * 1j, "complex64"),
        (lambda array: "a", "text"),
        (lambda array: [[1], [1, 2]], "list"),
        (lambda array: object(), "object"),
        (lambda array: None, "nothing"),
        (lambda array: array.astype("M8[s]"), r"datetime64\[s\]"),
    ],
)
def test_weights_that_are_no_real_numbers_are_refused(change, got):
    trainer = own_trainer()
    before = trainer.weights_sha256
    name, array = next(iter(trainer.weights.items()))
    with pytest.raises(ValueError, match=f"^{name}: got {got}, accepted: an array of real numbers"):
        trainer.weights = {**trainer.weights, name: change(array)}
    assert trainer.weights_sha256 == before


def test_a_manifest_has_the_weights_that_the_run_began_with(tmp_path):
    trainer = batchless.Trainer(TINY, out=tmp_path / "run")
    trainer.weights = {name: array / 2 for name, array in trainer.weights.items()}
    began_with = trainer.weights_sha256
    list(trainer.run())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["initial_weights_sha256"] == began_with


def test_weights_stay_where_phases_hand_on_a_count_of_updates():
    trainer = batchless.Trainer(
        {
            "network": {"name": "mlp", "hidden": [24, 16]},
            "data": {"name": "own"},
            "optimizer": {"kind": "adam", "batch": 1},
            "run": {"samples": 6},
            "phase": [{"until": 0.5}, {"schedule": {"kind": "pb"}}],
        }
    )
    trainer.weights = trainer.weights
    trainer.learn(IMAGES[0], 3)
    with pytest.raises(ValueError, match="^weights: got others after 1 samples, accepted: others before .* adam"):
        trainer.weights = trainer.weights


def test_arguments_of_another_type_are_named(tmp_path):
    with pytest.raises(TypeError, match="^weights: got int, accepted: a dict of arrays by name$"):
        own_trainer().weights = 5
    with pytest.raises(TypeError, match="^network: got int, accepted: a name, a path, TOML text or a dict$"):
        own_trainer(network=5)
    with pytest.raises(TypeError, match="^resume: got 'yes', accepted: True or False$"):
        batchless.Trainer(TINY, out=tmp_path / "run", resume="yes")
    with pytest.raises(TypeError, match="^out: got int, accepted: a path$"):
        batchless.Trainer(TINY, out=5)
    with pytest.raises(TypeError, match="^optimizer.lr: got object, accepted: numbers"):
        own_trainer(lr=object())


def test_refusals_of_files_and_folders(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(b'[network]\nname = "\xff\xfe"\n')
    with pytest.raises(ValueError, match="run.toml:2: got .*, accepted: TOML$"):
        batchless.Trainer(path)
    list(batchless.Trainer(TINY, out=tmp_path / "run").run())
    with pytest.raises(ValueError, match="^out: got .*run, accepted: .*, or resume=True to go on with this one$"):
        batchless.Trainer(TINY, out=tmp_path / "run")


def test_images_may_be_a_list_of_arrays():
    x, y = synthetic_samples(3)
    one, other = own_trainer(), own_trainer()
    assert one.learn(list(x), y.tolist()) == other.learn(x, y)
    assert one.evaluate(list(x), y.tolist()) == other.evaluate(x, y)
    one.weights = {name: array.tolist() for name, array in other.weights.items()}
    assert one.weights_sha256 == other.weights_sha256


def test_unknown_keywords_are_type_errors():
    with pytest.raises(TypeError, match="unexpected keyword argument 'learning_rate'"):
        own_trainer(learning_rate=1)
    with pytest.raises(TypeError, match="name: got a keyword, accepted: it in one of the dicts network, data, rule"):
        own_trainer(name="x")


def test_misspelt_attributes_are_errors():
    with pytest.raises(AttributeError, match="learning_rat"):
        own_trainer().learning_rat = 1


def test_a_run_in_parts_is_the_run():
    whole = batchless.Trainer(TINY)
    rows = list(whole.run())
    parts = batchless.Trainer(TINY)
    first = list(parts.run(60))
    assert first == rows[: len(first)] and first[-1].samples == 60
    assert first + list(parts.run(samples=1)) + list(parts.run()) == rows
    assert parts.weights_sha256 == whole.weights_sha256
    for wrong in (0, 1.5, print):
        with pytest.raises(ValueError, match="^samples: got"):
            parts.run(wrong)


def test_losses_of_what_was_learned():
    trainer = own_trainer(schedule="sequential", rule="sgdm")
    x, y = synthetic_samples(3)
    assert own_trainer(batch=4, schedule="sequential", rule="sgdm").learn(x[0], y[0]).loss is None
    results = trainer.learn(x, y)
    assert results.loss == sum(result.loss for result in results) / 3
    assert trainer.learn(x[0], y[0]).loss > 0


def test_streams_left_early_leave_no_threads():
    trainer = batchless.Trainer({**TINY, "schedule": {"kind": "pb", "workers": 2}, "run": {"samples": 6000}})
    threads = []
    for _ in range(20):
        for _ in trainer.run():
            break
        threads.append(len(os.listdir("/proc/self/task")))
    assert threads[0] == threads[-1]
    assert next(trainer.run()).samples > 0


def test_a_forked_child_ends_or_is_refused():
    script = f"""
import batchless, os, signal
configuration = { {**TINY, 'schedule': {'kind': 'pb', 'workers': 4}}!r}
trainer = batchless.Trainer(configuration)
next(trainer.run())
child = os.fork()
if child == 0:
    signal.alarm(60)
    list(batchless.Trainer(configuration).run(50))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    output_of(script)


def test_divergence_is_a_runtime_error():
    trainer = own_trainer(lr=1e6, rule="sgdm")
    x, y = synthetic_samples(200)
    with pytest.raises(RuntimeError, match="not finite at sample"):
        trainer.learn(x * 1e3, y)


def diverging_trainer():
    return batchless.Trainer(
        network={"name": "mlp", "hidden": [16]}, lr=1e5, batch=8, samples=1000,
        data={"name": "synthetic", "limit_train": 200, "limit_validation": 50},
    )  # fmt: skip


def test_a_run_that_diverges_without_a_folder_names_no_checkpoint():
    trainer = diverging_trainer()
    with pytest.raises(RuntimeError, match="^training diverged in stage .* is no finite number$"):
        list(trainer.run())
    assert trainer.summary().diverged.checkpoint_samples is None
    assert trainer.samples == trainer.summary().samples


def test_no_checkpoint_is_made_of_a_divergence(tmp_path):
    run = diverging_trainer()
    own = own_trainer(network={"name": "mlp", "hidden": [16]}, lr=1e6, rule="sgdm")
    x, y = synthetic_samples(200)
    for trainer, train in ((run, lambda: list(run.run())), (own, lambda: own.learn(x * 1e3, y))):
        trainer.save(tmp_path / "before")
        with pytest.raises(RuntimeError):
            train()
        # Finite weights are none of the samples that count, either.
        trainer.weights = {name: numpy.zeros_like(value) for name, value in trainer.weights.items()}
        with pytest.raises(RuntimeError, match="training diverged"):
            trainer.save(tmp_path / "after")
        assert not (tmp_path / "after").exists()
        trainer.load(tmp_path / "before")
        trainer.save(tmp_path / "before")


@pytest.mark.parametrize("rows", [0, 1])
def test_a_run_goes_on_after_a_full_disk(rows, tmp_path):
    run = {"samples": 600, "log_samples": True, "log_every_samples": 50, "checkpoint_every_samples": 200}
    for name in ("whole", "full"):
        trainer = batchless.Trainer({**TINY, "run": run}, out=tmp_path / name)
        if name == "full":
            stream = trainer.run()
            for _ in range(rows):
                next(stream)
            usual = resource.getrlimit(resource.RLIMIT_FSIZE)
            try:
                # Python ignores the signal: the write fails, once a part of it has been made.
                resource.setrlimit(resource.RLIMIT_FSIZE, (1500, usual[1]))
                with pytest.raises(RuntimeError, match="File too large"):
                    list(stream)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        list(trainer.run())
        del trainer
    for name in ("samples.csv", "metrics.csv"):
        assert (tmp_path / "full" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    again = batchless.Trainer({**TINY, "run": run}, out=tmp_path / "full", resume=True)
    assert again.samples == 600


def test_other_threads_run_while_it_trains_and_are_kept_out():
    trainer = batchless.Trainer({**TINY, "run": {"samples": 60000}})
    steps = 0
    ended = threading.Event()
    failures = []

    def count():
        nonlocal steps
        while not ended.is_set():
            steps += 1
            if steps == 1000:
                try:
                    trainer.weights
                except RuntimeError as error:
                    failures.append(str(error))

    thread = threading.Thread(target=count)
    for _ in zip(range(3), trainer.run(progress=lambda *_: thread.is_alive() or thread.start())):
        pass
    ended.set()
    thread.join()
    assert steps > 1000
    assert failures in ([], ["the trainer is at work in another thread"])


def test_other_threads_see_how_far_a_run_of_phases_is():
    phases = [{"until": until / 8} for until in range(1, 9)]
    script = f"""
import batchless, os, threading
threading.excepthook = lambda *_: os._exit(1)
trainer = batchless.Trainer({ {**TINY, 'phase': phases}!r})
ended = threading.Event()
def look():
    before = 0
    while not ended.is_set():
        assert before <= trainer.samples <= trainer.total_samples
        before = trainer.samples
thread = threading.Thread(target=look)
thread.start()
rows = list(trainer.run())
ended.set()
thread.join()
print(rows[-1].samples, trainer.samples)
"""
    assert output_of(script) == "150 150\n"


def test_ctrl_c_ends_a_run_that_can_go_on(tmp_path):
    script = f"""
import batchless, os, signal
trainer = batchless.Trainer({ {**TINY, 'run': {'samples': 100_000_000, 'log_every_samples': 100_000_000}}!r},
                            out={str(tmp_path / 'run')!r})
started = []
def progress(done, total):
    if done > 0 and not started:
        started.append(done)
        os.kill(os.getpid(), signal.SIGINT)
try:
    for row in trainer.run(progress=progress):
        pass
except KeyboardInterrupt:
    print("interrupted", trainer.samples > 0, os.path.exists({str(tmp_path / 'run' / 'checkpoint')!r}))
    weights = trainer.weights
"""
    assert output_of(script) == "interrupted True True\n"


def test_ctrl_c_among_many_rows_leaves_a_checkpoint_of_the_last(tmp_path):
    many = 100_000_000
    run = {"samples": many, "log_every_samples": 25, "validate_every_samples": many,
           "checkpoint_every_samples": many}  # fmt: skip
    script = f"""
import batchless, json, os, signal, threading
def is_kept(folder):
    trainer = batchless.Trainer({ {**TINY, 'run': run}!r}, out=folder)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        for row in trainer.run():
            pass
    except KeyboardInterrupt:
        pass
    with open(folder + "/checkpoint", "rb") as file:
        file.readline()
        return 0 < trainer.samples == json.loads(file.readline())["samples"]
# It may come between two rows, where the loop is the caller's.
print(any(is_kept({str(tmp_path)!r} + "/" + str(k)) for k in range(5)))
"""
    assert output_of(script) == "True\n"
