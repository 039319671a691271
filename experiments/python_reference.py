#!/usr/bin/env python3
"""Prints the documentation's page on the Python module, from its docstrings; the module is in PYTHONPATH."""

import inspect

import batchless


def entry(name, value, level="##"):
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = ""
    text = inspect.getdoc(value) or ""
    return f"{level} {name}\n\n```python\nbatchless.{name}{signature}\n```\n\n```text\n{text}\n```\n"


def main():
    print(f"# Python\n\n{inspect.getdoc(batchless).split(chr(10), 1)[0]}\n")
    print(entry("Trainer", batchless.Trainer))
    for name, value in vars(batchless.Trainer).items():
        if inspect.isfunction(value) and name[0] != "_":
            print(entry(f"Trainer.{name}", value, level="###"))
    for name in sorted(batchless.__all__):
        if name != "Trainer":
            print(entry(name, getattr(batchless, name)))


main()
