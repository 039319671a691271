"""Every function against the program's --json."""

import gc
import os
import pickle
import shlex
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import batchless
import numpy
import pytest
from batchless import _core, commands

SOURCE = Path(os.environ["BATCHLESS_SOURCE"])
# A minute of measurements, a set from the net, and folders of runs.
LEFT_OUT = ("calibrate", "data fetch", "data check", "generate", "compare", "report")
# What no two runs have alike.
TIMES = {"seconds", "pixels_per_second", "out"}
COMMANDS = {command["name"]: command for command in _core.describe_commands()}
EXAMPLES = [
    example
    for command in COMMANDS.values()
    for example in command["examples"]
    if command["name"] != "train" and not example.startswith(LEFT_OUT)
]


def without_times(values):
    return {name: value for name, value in values.items() if name not in TIMES}


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_gives_what_the_program_prints(example, program, tmp_path, monkeypatch):
    for name in ("experiments", "hwmodel"):
        (tmp_path / name).symlink_to(SOURCE / name)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example)
    # An earlier example makes the file that this one reads.
    if "--file" in words and words[0] == "schedule":
        batchless.schedule("pb", stages=4, microbatches=16, out="schedule.csv")
    if "--hessian" in words:
        numpy.savez("H.npz", hessian=numpy.diag(numpy.logspace(-2, 0, 16)))
    expected = program(*words)
    if words[0] == "data":
        shutil.rmtree("data")
    call = commands.example_call(example, COMMANDS[words[0]])
    result = eval(call, {"batchless": batchless})
    own = result.to_dict()
    if words[0] == "sweep":
        path = Path(words[words.index("--out") + 1])
        if path.suffix == ".npz":
            with numpy.load(path) as arrays:
                for name in arrays:
                    assert arrays[name].tobytes() == result[name].tobytes()
        for name in ("momentum", "rate", "spectral_radius", "error_bound", "log_spectral_radius"):
            del own[name]
    if words[0] == "simulate" and "--out" in words:
        assert {"weight", "velocity", "predicted_weight"}.isdisjoint(own)
    assert without_times(own) == without_times(expected)
    assert pickle.loads(pickle.dumps(result)) == result


def test_there_is_a_function_for_each_command():
    names = {commands.python_name(name) for name in COMMANDS} - {"train"}
    assert names <= set(batchless.__all__)
    for name in names:
        assert getattr(batchless, name).__doc__.startswith(COMMANDS[name.replace("_", "-")]["description"])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: batchless.stability("sgdm", delay=-1, momentum=0.9, rate=0.1), "stability --rule sgdm --delay=-1 --momentum 0.9 --rate 0.1"),
        (lambda: batchless.stability("sgdm", delay=4, momentum=0.9), "stability --rule sgdm --delay 4 --momentum 0.9"),
        (lambda: batchless.optimum("sgd", delay=4, condition=10), "optimum --rule sgd --delay 4 --condition 10"),
        (lambda: batchless.optimum("sgdm", delay=4, condition=0.5), "optimum --rule sgdm --delay 4 --condition 0.5"),
        (lambda: batchless.boundary("sgdm", delay="", momentum=0.9), "boundary --rule sgdm --delay '' --momentum 0.9"),
        (lambda: batchless.costs("resnet"), "costs --network resnet"),
    ],
)
def test_refusals_are_the_programs_lines(call, words, program):
    with pytest.raises(ValueError) as refused:
        call()
    line = program(*shlex.split(words), fails=True)
    # By the keyword, where the program names the option.
    assert str(refused.value) == line.removeprefix("--")


def test_refusals_name_the_keyword():
    with pytest.raises(ValueError, match="^half_lives: got"):
        batchless.frontier("sgdm", delay=1, condition=10, half_lives=-1)


@pytest.mark.parametrize(
    "call, line",
    [
        (lambda: batchless.generate(run="g", prompt=[], tokens=5), "prompt: got an empty list, accepted: "),
        (lambda: batchless.boundary("sgdm", delay=[], momentum=0.9), "delay: got an empty list, accepted: "),
        (lambda: batchless.boundary("sgdm", delay=numpy.zeros(0), momentum=0.9), "delay: got an empty list, "),
        (lambda: batchless.boundary("sgdm", delay=[[], 1], momentum=0.9), "delay: got an empty list, "),
        (lambda: batchless.sweep("sgdm", delay=4, rates=[]), "rates: got an empty list, "),
        (lambda: batchless.compare(run=[]), "run: got an empty list, "),
        (lambda: batchless.compare(), "run: got nothing, "),
        (lambda: batchless.compare(run=5), "run: got 5, "),
        (lambda: batchless.compare(run=["--out=x.csv"]), "run: got --out=x.csv, "),
        (lambda: batchless.report(""), "run: got an empty string, "),
        (lambda: batchless.report("-x"), "run: got -x, "),
        (lambda: batchless.data("try"), "action: got try, "),
        (lambda: batchless.data("check", what="--json"), "what: got --json, "),
        (lambda: batchless.data(what="cifar10"), r"action: got nothing, accepted: fetch\|check\|synth"),
        (lambda: batchless.sweep("sgdm", delay=1, momenta="lin:0:0.9:1000000", rates="lin:0.1:1:1000000"),
         "momenta, rates: got 1000000 x 1000000 points"),
        (lambda: batchless.stability("sgdm\0x", delay=1, momentum=0, rate=0.1), r"rule: got 'sgdm\\x00x', accepted: "),
        (lambda: batchless.costs("resnet20", out="a.csv\0x"), "out: got "),
        (lambda: batchless.compare(run=["a", "b\0"]), "run: got "),
    ],
)  # fmt: skip
def test_refusals_of_what_no_word_can_be(call, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="^" + line):
        call()
    assert not list(tmp_path.iterdir())


def test_a_prompt_is_the_text_that_was_given(tmp_path):
    (tmp_path / "text.txt").write_text("In the beginning was the word.\n" * 40)
    trainer = batchless.Trainer(
        network={"name": "gpt", "layers": 1, "width": 8, "heads": 1, "context": 8},
        data={"name": "text", "file": str(tmp_path / "text.txt")}, schedule="sequential", batch=1, samples=2,
        out=tmp_path / "run",
    )  # fmt: skip
    list(trainer.run())
    for prompt in ("--tokens=5", "-x", "[a,b]", "In\nthe", "one\n"):
        assert batchless.generate(run=tmp_path / "run", prompt=prompt, tokens=1).prompt == prompt
    with pytest.raises(ValueError, match="^prompt: got an empty string, accepted: "):
        batchless.generate(run=tmp_path / "run", prompt="", tokens=1)


def test_refusals_of_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "file.csv"
    path.write_bytes(b"\xff\xfe1,2\n")
    with pytest.raises(ValueError, match="file.csv line 1: columns: got \ufffd\ufffd1,2, accepted: "):
        batchless.schedule(file=path)
    with pytest.raises(ValueError, match="^delays: got .*file.csv, line 1: \ufffd\ufffd1,2, accepted: "):
        batchless.stability("sgdm", delays=path, momentum=0.9, rate=0.1)


def test_docstrings_speak_of_python():
    assert ">>> batchless.compare(out='build/compare.html', run=glob.glob('runs/*'))" in batchless.compare.__doc__
    assert "a rule. The result without out holds the actions too" in batchless.schedule.__doc__
    for name in set(COMMANDS) - {"train"}:
        assert "--json" not in getattr(batchless, commands.python_name(name)).__doc__


def test_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError, match=r"optimum\(\) .*'dealy'"):
        batchless.optimum("sgdm", dealy=4, condition=10)
    with pytest.raises(TypeError, match="roots: got 1, accepted: True or False"):
        batchless.stability("sgdm", delay=1, momentum=0, rate=0.1, roots=1)
    with pytest.raises(TypeError, match="delay: got object, accepted: a number, a text or several"):
        batchless.stability("sgdm", delay=object(), momentum=0, rate=0.1)


def test_numbers_keep_their_bits():
    rates = numpy.random.default_rng(1).uniform(1e-6, 1, 1000)
    momenta = [0.1 + 0.2, 1 - 2.0**-53]
    result = batchless.sweep("sgdm", delay=3, momenta=momenta, rates=rates)
    assert result.rate.tobytes() == rates.tobytes()
    assert result.momentum.tolist() == momenta
    # Without a delay the radius of plain SGD is known.
    plain = batchless.sweep("sgdm", delay=0, momenta=[0], rates=rates)
    errors = numpy.abs(plain.spectral_radius - numpy.abs(1 - rates))
    assert (errors <= plain.error_bound).all() and plain.error_bound.max() < 1e-13


def test_lists_arrays_and_the_programs_own_text_are_one(program):
    as_text = batchless.optimum("sgdm,sc", delay="0,1,2", condition=100)
    assert batchless.optimum(["sgdm", "sc"], delay=range(3), condition=100) == as_text
    assert batchless.optimum(("sgdm", "sc"), delay=numpy.arange(3), condition=[100.0]) == as_text
    one = batchless.optimum("sgdm", delay=1, condition=100)
    assert batchless.optimum("sgdm", delay=numpy.array(1), condition=numpy.array(100.0)) == one
    assert len(as_text.rows) == 6


def test_networks_and_schedules_as_text():
    network = batchless.network("mlp").text
    assert network.startswith("name = ")
    assert batchless.costs(network) == batchless.costs("mlp")
    with pytest.raises(ValueError, match="^network the text:1: classes: got nothing"):
        batchless.costs('name = "a"\ninput = 3\n')


def test_results():
    result = batchless.optimum("sgdm", delay=1, condition=10)
    assert result.momentum == result["momentum"] == dict(result)["momentum"]
    assert repr(result).startswith("OptimumResult(rule='sgdm', delay=1, ")
    assert result != batchless.optimum("sgdm", delay=2, condition=10)
    with pytest.raises(AttributeError):
        result.momentum = 1
    with pytest.raises(AttributeError):
        result.moment
    copy = pickle.loads(pickle.dumps(batchless.sweep("sgdm", delay=1, momenta=[0], rates=[0.1, 9])))
    assert type(copy).__name__ == "SweepResult"
    assert copy.spectral_radius.shape == (1, 2)


def test_a_notebook_shows_tables():
    shown = batchless.optimum(["sgdm", "sc"], delay=[1, 2], condition=10)._repr_html_()
    assert shown.count("<table>") == 2 and shown.count("<th>rule</th>") == 1
    rows = shown[shown.index("<th>rule</th>") :]
    assert rows[: rows.index("</table>")].count("<tr>") == 4
    text = batchless.network("mlp")._repr_html_()
    assert "<table>" in text and "\n[[" in text
    assert "&lt;array float64 1x2&gt;" in batchless.sweep("sgdm", delay=1, momenta=[0], rates=[0.1, 9])._repr_html_()


def test_arrays_outlive_their_result():
    result = batchless.sweep("sgdm", delay=1, momenta=[0, 0.5], rates=[0.1, 0.2])
    radius, copy = result.spectral_radius, result.spectral_radius.copy()
    assert radius.base is not None
    del result
    gc.collect()
    others = [numpy.full_like(copy, 7) for _ in range(1000)]
    assert (radius == copy).all() and len(others) == 1000


def test_callbacks_leave_no_references():
    calls = []
    before = sys.getrefcount(calls)
    for _ in range(50):
        batchless.sweep("sc", delay=1, momenta=[0, 0.5], rates=[0.1, 0.2], threads=2,
                        progress=lambda done, total: calls.append(done))  # fmt: skip
    gc.collect()
    assert sys.getrefcount(calls) == before


def test_errors_of_the_callers_own_go_through_as_they_are():
    class Stopped(RuntimeError):
        def __init__(self, number, line):
            super().__init__(line)
            self.number = number

    def stop(*_):
        raise Stopped(7, "stopped")

    # The progress is called ten times a second; all rows would take seconds.
    with pytest.raises(Stopped, match="stopped") as caught:
        batchless.optimum("lwp-v+sc", delay=list(range(1, 500)), condition=1000, progress=stop)
    assert caught.value.number == 7


def test_ctrl_c_ends_a_computation_in_the_midst_of_a_row():
    # The whole search takes half a minute of processor time.
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        before = time.process_time()
        batchless.design(delay=4, condition=100, order=5, over="convex")
    assert time.process_time() - before < 10
