"""Results: what the program prints with --json, as objects."""

import html
import math
import sys


class Result:
    """A result with the names of the program's JSON as attributes, also by result["name"].

    Values are numbers, texts, None where JSON has null, lists, NumPy arrays, and results for objects
    within it. Results pickle, compare by their values and iterate over their names. In a notebook they are
    tables.
    """

    def __init__(self, values):
        self.__dict__.update({name: _wrap(value) for name, value in values.items()})

    def __getitem__(self, name):
        return self.__dict__[name]

    def __iter__(self):
        return iter(self.__dict__)

    def __len__(self):
        return len(self.__dict__)

    def keys(self):
        return self.__dict__.keys()

    def to_dict(self):
        """Dicts and lists all the way down, as json.loads() makes them of the program's output."""
        return {name: _unwrap(value) for name, value in self.__dict__.items()}

    def __eq__(self, other):
        if not isinstance(other, Result):
            return NotImplemented
        return self.keys() == other.keys() and all(_same(self[name], other[name]) for name in self)

    __hash__ = None

    def __repr__(self):
        fields = ", ".join(f"{name}={_shown(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

    def _repr_html_(self):
        return _table([(name, value) for name, value in self.__dict__.items()])

    def __setattr__(self, name, value):
        raise AttributeError(f"{type(self).__name__} is read-only")

    def __reduce__(self):
        return (type(self), (dict(self.__dict__),))


def is_array(value):
    """Whether it is a NumPy array. Without NumPy there are none; what has no arrays works without it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _wrap(value):
    if isinstance(value, dict):
        return Result(value)
    if isinstance(value, list):
        return [_wrap(item) for item in value]
    return value


def _unwrap(value):
    if isinstance(value, Result):
        return value.to_dict()
    if is_array(value):
        return _unwrap(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    return value


def _same(a, b):
    if is_array(a) or is_array(b):
        return sys.modules["numpy"].array_equal(a, b, equal_nan=True)
    return a == b


_MOST_ITEMS = 8
_MOST_ROWS = 50


def _shown(value):
    if is_array(value):
        return f"<array {value.dtype} {'x'.join(map(str, value.shape))}>"
    if isinstance(value, list) and len(value) > _MOST_ITEMS:
        return f"<list of {len(value)}>"
    return repr(value)


def _table(rows, head=()):
    """Rows of cells as HTML, headings first."""
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in head)] if head else []
    lines += ["".join(f"<td>{_cell(value)}</td>" for value in row) for row in rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        lines.append(f"<td>and {len(rows) - _MOST_ROWS} more</td>")
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _cell(value):
    if isinstance(value, Result):
        return value._repr_html_()
    if isinstance(value, list) and value and all(isinstance(item, Result) for item in value):
        names = list(dict.fromkeys(name for item in value for name in item))
        return _table([[item.__dict__.get(name) for name in names] for item in value], names)
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return html.escape(value if isinstance(value, str) else _shown(value))
