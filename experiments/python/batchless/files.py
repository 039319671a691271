"""Texts for arguments that the program takes as files."""

import tempfile


def as_file(text, files, texts):
    """The path of a file with that text, which lives as long as `files`; noted in `texts`."""
    is_table = "," in text.split("\n", 1)[0] and "=" not in text
    suffix = ".toml" if "=" in text else ".csv" if is_table else ".txt"
    file = files.enter_context(tempfile.NamedTemporaryFile("w", suffix=suffix, encoding="utf-8"))
    file.write(text)
    file.flush()
    texts[file.name] = "the text"
    return file.name


def without_temporary_names(line, texts):
    for path, name in texts.items():
        line = line.replace(path, name)
    return line
