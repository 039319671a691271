"""Texts as the program takes them: whole, and as files where it takes files."""

import contextlib
import hashlib
import os
import tempfile


def checked_text(name, text):
    """The text itself. The program's texts end at the first NUL."""
    if "\0" in text:
        raise ValueError(f"{name}: got {text!r}, accepted: a text without NUL characters")
    return text


def checked_path(name, path):
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: got {type(path).__name__}, accepted: a path")
    return checked_text(name, os.fsdecode(path))


def encoded(text):
    """The bytes of a text, and of a path that is no UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def as_file(text, files, texts):
    """The path of a file with that text, which lives as long as `files`; noted in `texts`."""
    is_table = "," in text.split("\n", 1)[0] and "=" not in text
    suffix = ".toml" if "=" in text else ".csv" if is_table else ".txt"
    file = files.enter_context(tempfile.NamedTemporaryFile("w", suffix=suffix, encoding="utf-8"))
    file.write(text)
    file.flush()
    texts[file.name] = "the text"
    return file.name


def kept_file(text, folder, files, texts):
    """The same in a folder that keeps it, by its digest: whoever goes on there reads it again. What was not there
    before goes with `files`."""
    folder = os.path.abspath(folder)
    content = encoded(text)
    path = os.path.join(folder, f"network-{hashlib.sha256(content).hexdigest()[:8]}.toml")
    new = [place for place in (folder, path) if not os.path.exists(place)]
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    except OSError:
        # The program says what is wrong with the folder.
        return as_file(text, files, texts)
    if folder in new:
        files.callback(os.rmdir, folder)
    if path in new:
        files.callback(os.unlink, path)
    texts[path] = "the text"
    return path


def without_temporary_names(line, texts):
    for path, name in texts.items():
        line = line.replace(path, name)
    return line


@contextlib.contextmanager
def refusals(named):
    """Refusals of the program in the words of `named`. An error of the caller's own, from a signal's handler or
    the progress, goes through as it is."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        line = named(str(error))
        if type(error) not in (ValueError, RuntimeError) or line == str(error):
            raise
        raise type(error)(line) from None
