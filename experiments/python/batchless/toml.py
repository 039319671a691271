"""Python's values as TOML, for configurations and networks that are given as dicts."""

import json
import numbers
import os
import re

from .files import checked_text
from .result import is_array


def to_toml(value, name="configuration"):
    """A value on one line; dicts are inline tables. `name` is whose value it is, for refusals."""
    if is_array(value):
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return _quoted(checked_text(name, os.fspath(value)), name)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {to_toml(item, key)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(to_toml(item, name) for item in value) + "]"
    raise TypeError(f"{name}: got {type(value).__name__}, accepted: numbers, texts, lists and dicts")


def to_document(values):
    """A dict as the text of a file, a line for each of its names."""
    return "".join(f"{_key(name)} = {to_toml(value, name)}\n" for name, value in values.items())


def _key(name):
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name, "key")


def _quoted(text, name):
    """TOML has the escapes of JSON, but for halves of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: got {text!r}, accepted: a text in UTF-8") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
