"""Training: the program's runs, and samples of the caller's own."""

import collections
import collections.abc
import contextlib
import math
import numbers
import os
import re

from . import _core
from .files import as_file, checked_path, checked_text, encoded, kept_file, refusals, without_temporary_names
from .result import Result
from .toml import to_document, to_toml

# The key that a text in place of a section's dict stands for.
_MAIN_KEYS = {"network": "name", "data": "name", "schedule": "kind", "rule": "name", "optimizer": "kind"}

_KEYS = _core.describe_configuration()
_SECTIONS = {key["section"]: {} for key in _KEYS}
for _key in _KEYS:
    _SECTIONS[_key["section"]][_key["name"]] = _key
_COUNTS = collections.Counter(key["name"] for key in _KEYS)
# Keys that are keywords of their own: the names that one section has, and `seed`, the run's.
FLAT_KEYS = {
    key["name"]: key
    for key in _KEYS
    if key["name"] not in _SECTIONS and (_COUNTS[key["name"]] == 1 or key["section"] == "run")
}


class MetricsRow(Result):
    """A row of metrics.csv: samples, epoch, learning_rate, train_loss, train_accuracy, validation_loss,
    validation_accuracy; None where something was not measured there."""


class SampleResult(Result):
    """What happened to one sample of the run: sample (its position), label, loss (nats), and correct, the
    share of its tokens whose largest output is the label's: 0 or 1 for an image."""


class SampleResults(list):
    """SampleResults in their order; loss, their mean (nats), None where there are none."""

    @property
    def loss(self):
        return sum(result.loss for result in self) / len(self) if self else None


class Weights(dict):
    """Arrays by name. trainer.weights() is trainer.weights."""

    def __call__(self):
        return self


class Evaluation(Result):
    """samples; loss, their mean (nats); accuracy, the share of them whose largest output is the label's."""


class Summary(Result):
    """What `batchless train --json` prints."""


class MemoryPrediction(Result):
    """total_bytes and peak_bytes as the hardware model predicts them; allocated_bytes, what there is."""


class Trainer:
    """A network in training, as a function of its configuration and seed.

    The bits are those of `batchless train`: one stage's parameters see, with the delay D_s of its stage,

        v' = m v + g(w_(t - D_s)),   w' = w - eta (a v' + b g)

    with momentum m, learning rate eta, and a = 1, b = 0 for plain SGD with momentum; `rules()` and
    `optimizers()` list what else there is.

    Parameters
    ----------
    configuration : dict, path, or TOML text
        As `batchless train` takes it: sections network, data, schedule, rule, optimizer, run, and a list
        of phases. None: everything by keywords
    network : str, path, TOML text, or dict
        A built-in network's name, or a network of your own as `batchless.network()` writes it; a text or dict
        is kept in `out`
    data, schedule, rule, optimizer, run : dict or str
        Keys of that section; a text is data.name, schedule.kind, rule.name or optimizer.kind
    out : path
        A folder for the files of the run, as `--out`; None: there are none
    resume : bool
        Go on with the run in `out`
    **keywords
        Keys by their names alone where one section has them: lr, momentum, batch, workers, ...; seed is
        the run's

    Without a data set in a dict or in the keywords the samples are your own (data.name is "own"): learn()
    takes them one by one, and the run has no end before finish() unless `samples` says so. A TOML file
    means what it means to the program.

    Attributes
    ----------
    samples, total_samples : int
        Samples that have entered, and of the whole run; None where nobody knows
    delays : array of int64, shape (stages,)
        D_s, updates: by how many a forward's weights are older than those that its gradient updates
    weights : dict of arrays, float32 or float64
        Parameters, then running statistics, by PyTorch's names and with its shapes. Assigning a dict
        replaces them; what the optimizer keeps starts at 0, its count of updates, too. weights() gives the
        same dict
    weights_sha256 : str
        Their digest, as the program's summary has it
    configuration : str
        The resolved configuration, TOML
    input_shape : tuple of int
        (channels, height, width)
    classes : int

    Raises
    ------
    ValueError
        With the program's own line, which names the key, what it got, and what is accepted

    Examples
    --------
    >>> trainer = batchless.Trainer("experiments/configs/resnet20_pb.toml", samples=3000)
    >>> for row in trainer.run():
    ...     print(row.samples, row.train_loss)
    >>> own = batchless.Trainer(network="resnet20", schedule="pb", rule="lwp-v+sc", batch=1, lr=1e-5)
    >>> results = own.learn(image, 3)

    Keys of the configuration
    -------------------------
    """

    # A misspelt attribute is an error.
    __slots__ = ("__weakref__", "_core")

    def __init__(self, configuration=None, *, network=None, out=None, resume=False, **keywords):
        if not isinstance(resume, bool):
            raise TypeError(f"resume: got {resume!r}, accepted: True or False")
        if resume and out is None:
            _refuse("resume", "True", "it together with out, the folder of the run")
        values = {}
        text, path = "", "configuration"
        has_file = isinstance(configuration, (str, os.PathLike))
        if isinstance(configuration, dict):
            text = _document(configuration)
        elif has_file and "\n" in os.fspath(configuration):
            text = checked_text("configuration", os.fspath(configuration))
        elif has_file:
            text, path = None, checked_path("configuration", configuration)
        elif configuration is not None:
            raise TypeError(
                f"configuration: got {type(configuration).__name__}, accepted: a dict, a path or TOML text"
            )
        folder = None if out is None else checked_path("out", out)
        with contextlib.ExitStack() as files:
            texts = {}
            if network is not None:
                values.update(_network_values(network, folder, files, texts))
            for name, value in keywords.items():
                for key, item in _keyword_values(name, value).items():
                    if key in values:
                        _refuse(key, f"{values[key]!r} and {item!r}", "one value, given once")
                    values[key] = item
            names_data = has_file or "name" in (configuration or {}).get("data", {})
            if not names_data and "data.name" not in values:
                values["data.name"] = "own"
            overrides = [f"{name}={to_toml(value, name)}" for name, value in values.items()]
            with refusals(lambda line: _named_in_python(without_temporary_names(line, texts))):
                self._core = _core.Trainer(
                    text, encoded(path), overrides, None if folder is None else encoded(folder), resume
                )
            if folder is not None:
                # The run reads its network there from now on.
                files.pop_all()

    def run(self, samples=None, progress=None):
        """Trains on the configured data set and yields the rows of metrics.csv as they come.

        Ctrl-C raises KeyboardInterrupt within half a second, with a checkpoint where there is a folder;
        another run() goes on from there.

        Parameters
        ----------
        samples : int
            Stop at the first row that lies this many samples further on, or more; None: at the run's end
        progress : callable
            Called with samples done and samples of the run, ten times a second

        Yields
        ------
        MetricsRow
        """
        if samples is not None and (not isinstance(samples, numbers.Integral) or samples < 1):
            _refuse("samples", repr(samples), "an integer above 0, or None")
        if not self._core.has_data():
            _refuse("data.name", "own", "a data set, for run(); learn() takes samples of your own")
        return self._rows(samples, progress)

    def _rows(self, samples, progress):
        end = math.inf if samples is None else self.samples + samples
        while (row := self._next_row(progress)) is not None:
            yield MetricsRow(row)
            if row["samples"] >= end:
                return

    def _next_row(self, progress):
        with refusals(_named_in_python):
            return self._core.next_row(progress)

    def learn(self, x, y):
        """Trains on a sample, the next of the run, or on several one after the other.

        With micro-batches in flight (schedule "pb" and its kin) a sample's result and updates come some
        calls later; with mini-batches, when their last sample is there.

        Parameters
        ----------
        x : array of float32, shape (channels, height, width), or (n, channels, height, width)
            Images as the network is to see them: normalised. Not copied where they are C-contiguous
        y : int, or array of n integers
            From 0 to classes - 1

        One that is refused leaves all of them untrained.

        Returns
        -------
        SampleResults
            A list of those that met their loss by now, in their order; its loss is their mean
        """
        images, labels = self._samples(x, y)
        with refusals(lambda line: re.sub("^image(?=: )", "x", line)):
            results = self._core.learn(images, labels)
        return SampleResults(SampleResult(values) for values in results)

    def finish(self):
        """Ends the run here: all that is in flight gets its updates. Returns the missing SampleResults.

        Where micro-batches are in flight no checkpoint is made after it, as no run goes on from an empty
        pipeline: save() before it. The folder's checkpoint is of before, too.
        """
        return SampleResults(SampleResult(values) for values in self._core.finish())

    def evaluate(self, x=None, y=None):
        """Loss and accuracy with the current weights, nothing dropped.

        Parameters
        ----------
        x, y : arrays
            As for learn(); None: the configured validation set

        Returns
        -------
        Evaluation
        """
        if x is not None:
            images, labels = self._samples(x, y)
            if not labels:
                _refuse("x", "no image", "at least one")
            return Evaluation(self._core.evaluate(images, labels))
        if not self._core.has_data():
            _refuse("x", "nothing", "images, and y their labels: there is no data set")
        if y is not None:
            _refuse("x", "nothing", "images, where y is their labels")
        return Evaluation(self._core.evaluate(None, []))

    def _samples(self, x, y):
        """An array of one image or, by its first index, of several, and a list of their labels."""
        if self._core.labels() != 1:
            accepted = f"those of a data set, as {self._core.network()} takes {self._core.labels()} labels of each"
            _refuse("x", "samples of your own", accepted)
        images = _array("x", x, _IMAGES)
        if images.dtype != "float32":
            _refuse("x", _kind(images), _IMAGES)
        shape, is_one = self.input_shape, images.shape == self.input_shape
        if not is_one and images.shape[1:] != shape:
            text = ", ".join(map(str, shape))
            _refuse("x", f"shape {images.shape}", f"({text}), or (n, {text}) with n labels")
        labels = _array("y", y, _LABELS)
        if labels.dtype.kind not in "iu":
            _refuse("y", _kind(labels), _LABELS)
        wanted = () if is_one else images.shape[:1]
        if labels.shape != wanted:
            accepted = "one label for one image" if is_one else f"{wanted}, a label for each image"
            _refuse("y", f"shape {labels.shape}", accepted)
        labels, classes = labels.ravel().tolist(), self.classes
        for label in labels:
            if not 0 <= label < classes:
                _refuse("y", label, f"an integer from 0 to {classes - 1}")
        return images, labels

    def save(self, path):
        """Writes a checkpoint: the whole state, samples in flight and all."""
        path = checked_path("path", path)
        folder = os.path.dirname(path) or os.curdir
        why = None
        if os.path.isdir(path) or not path:
            why = "this is a folder" if path else "this is no name"
        elif not os.path.isdir(folder):
            why = "there is no such folder"
        elif not os.access(folder, os.W_OK):
            why = "the folder is read-only"
        if why:
            _refuse("path", path or "an empty string", f"a file to write ({why})")
        self._core.save(encoded(path))

    def load(self, path):
        """Goes on from a checkpoint of the same configuration and data, to the same bits.

        Where there is a folder, the next run() cuts its files back to the checkpoint, whose rows have to be
        in them. A ValueError leaves the trainer as it was.
        """
        path = encoded(checked_path("path", path))
        with refusals(lambda line: re.sub("^--resume(?=: )", "path", line)):
            self._core.load(path)

    def summary(self):
        """What `batchless train --json` prints, as it is now."""
        return Summary(self._core.summary())

    def predict_memory(self):
        """Memory of the trainer, bytes."""
        return MemoryPrediction(self._core.predict_memory())

    def _set_weights(self, weights):
        if not isinstance(weights, collections.abc.Mapping):
            raise TypeError(f"weights: got {type(weights).__name__}, accepted: a dict of arrays by name")
        arrays = {str(name): _array(name, value, _REAL_NUMBERS) for name, value in weights.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":
                _refuse(name, _kind(array), _REAL_NUMBERS)
        self._core.set_weights(arrays)

    weights = property(lambda self: Weights(self._core.weights()), _set_weights)
    weights_sha256 = property(lambda self: self._core.weights_sha256())
    delays = property(lambda self: self._core.delays())
    samples = property(lambda self: self._core.samples())
    total_samples = property(lambda self: self._core.total_samples())
    configuration = property(lambda self: self._core.configuration())
    input_shape = property(lambda self: self._core.input_shape())
    classes = property(lambda self: self._core.classes())

    def __repr__(self):
        return f"<batchless.Trainer: {self.samples} of {self.total_samples or 'any number of'} samples>"


_IMAGES = "float32, as the network is to see the images"
_LABELS = "an integer for each image"
_REAL_NUMBERS = "an array of real numbers"


def _refuse(name, got, accepted):
    raise ValueError(f"{name}: got {got}, accepted: {accepted}")


def _array(name, value, accepted):
    """As NumPy makes one of lists, and of what has an array in it."""
    import numpy

    if value is None:
        _refuse(name, "nothing", accepted)
    try:
        return numpy.asarray(value)
    except (ValueError, TypeError) as error:
        why = re.sub(r"[\x00-\x1f\x7f]", "?", str(error))
    _refuse(name, type(value).__name__, f"{accepted} ({why})")


def _kind(array):
    return "text" if array.dtype.kind in "US" else str(array.dtype)


def _named_in_python(line):
    """A refusal by the keywords, where it names options, which --set is for most of them."""
    line = re.sub("^--(out|resume)(?=: )", r"\1", line.removeprefix("--set: "))
    line = re.sub("^CONFIG(?=: )", "configuration", line)
    return line.replace(", or --resume to go on", ", or resume=True to go on")


def _document(configuration):
    """A configuration as TOML; of the network a dict of its own is an override."""
    for section in configuration:
        if section != "phase" and section not in _SECTIONS:
            _refuse(section, "a section", ", ".join([*_SECTIONS, "phase"]))
    return to_document(configuration)


def _network_values(network, folder, files, texts):
    if isinstance(network, dict):
        if "input" not in network:
            return _keyword_values("network", network)
        network = to_document(network)
    if not isinstance(network, (str, os.PathLike)):
        raise TypeError(f"network: got {type(network).__name__}, accepted: a name, a path, TOML text or a dict")
    text = checked_text("network", os.fspath(network))
    if "\n" in text:
        if folder:
            return {"network.file": kept_file(text, folder, files, texts)}
        return {"network.file": as_file(text, files, texts)}
    if isinstance(network, os.PathLike) or re.search(r"[/.]", text):
        return {"network.file": text}
    return {"network.name": text}


def _keyword_values(name, value):
    """The keys that a keyword stands for, with their values."""
    if name in _SECTIONS:
        if isinstance(value, dict):
            return {f"{name}.{key}": item for key, item in value.items()}
        if name in _MAIN_KEYS:
            return {f"{name}.{_MAIN_KEYS[name]}": value}
        raise TypeError(f"{name}: got {type(value).__name__}, accepted: a dict of its keys")
    if name in FLAT_KEYS:
        return {f"{FLAT_KEYS[name]['section']}.{name}": value}
    places = [section for section, keys in _SECTIONS.items() if name in keys]
    if places:
        raise TypeError(f"{name}: got a keyword, accepted: it in one of the dicts {', '.join(places)}")
    raise TypeError(f"Trainer() got an unexpected keyword argument {name!r}")


Trainer.__doc__ += "\n".join(
    f"    {key['section']}.{key['name']} : {key['type']}\n        {key['help']} ({key['accepted']})"
    for key in _KEYS
)
