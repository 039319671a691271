"""The functions of the module, made of the program's own table of commands and options."""

import contextlib
import inspect
import keyword
import numbers
import os
import re
import shlex

from . import _core
from .files import as_file, checked_text, encoded, refusals, without_temporary_names
from .result import Result, is_array

# Training is Trainer's: the command is for folders of runs and several processes.
LEFT_OUT = {"train"}


def make_functions(module):
    """A function for each command, by its name; `module` is where they say that they are."""
    functions = {}
    for command in _core.describe_commands():
        if command["name"] not in LEFT_OUT:
            function = _make_function(command, module)
            functions[function.__name__] = function
    return functions


def python_name(name):
    """The keyword or function that stands for an option or command: --sc-delay is sc_delay."""
    name = name.lstrip("-").replace("-", "_").lower()
    return name + "_" if keyword.iskeyword(name) else name


def result_class_name(command):
    return command["name"].title().replace("-", "") + "Result"


def _make_function(command, module):
    options = {python_name(option["name"]): option for option in command["options"]}
    result_class = type(
        result_class_name(command),
        (Result,),
        {"__module__": __name__, "__doc__": f"What {python_name(command['name'])}() returns."},
    )
    globals()[result_class.__name__] = result_class

    # Parameters in the order of the program's help; the first may be given by its place.
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if place == 0 else inspect.Parameter.KEYWORD_ONLY,
            default=False if option["is_flag"] else None,
        )
        for place, (name, option) in enumerate(options.items())
    ]
    parameters.append(inspect.Parameter("progress", inspect.Parameter.KEYWORD_ONLY, default=None))
    signature = inspect.Signature(parameters)

    def function(*args, **keywords):
        try:
            values = signature.bind(*args, **keywords).arguments
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        progress = values.pop("progress", None)
        with contextlib.ExitStack() as files:
            texts = {}
            named, unnamed, missing = [], [], None
            for name, option in options.items():
                words = _words(name, option, values.get(name), files, texts)
                if option["name"].startswith("--"):
                    named += words
                elif not words:
                    missing = missing or f"{name}: got nothing, accepted: {option['form']}"
                elif missing:
                    raise ValueError(missing)
                else:
                    unnamed += words
            # Behind "--" a text that begins with "-" is no option.
            words = [command["name"], *named, *(["--", *unnamed] if unnamed else [])]
            with refusals(lambda line: _named_in_python(without_temporary_names(line, texts), options)):
                result, arrays = _core.run([encoded(word) for word in words], progress)
        return result_class({**result, **arrays})

    function.__name__ = function.__qualname__ = python_name(command["name"])
    function.__module__ = module
    function.__signature__ = signature
    function.__doc__ = docstring(command)
    return function


def _words(name, option, value, files, texts):
    """What stands on the command line for the value of the keyword `name`."""
    if value is None or value is False:
        return []
    if option["is_flag"]:
        if value is not True:
            raise TypeError(f"{name}: got {value!r}, accepted: True or False")
        return [option["name"]]
    if option["is_repeated"]:
        given = _texts(name, value)
    else:
        text = _text(name, value)
        # A text of several lines stands for a file, but where a text is what the option takes.
        is_file = "\n" in text and option["form"] != "TEXT"
        given = [as_file(text, files, texts) if is_file else text]
    if not option["name"].startswith("--"):
        return given
    # Behind "=" a text may begin with "-", but where it is empty the next word would be taken for it.
    words = []
    for text in given:
        words += [f"{option['name']}={text}"] if text else [option["name"], ""]
    return words


def _texts(name, value):
    """The values of what may be given several times; one alone stands for itself."""
    try:
        values = [value] if isinstance(value, (str, os.PathLike)) else list(value)
    except TypeError:
        values = [value]
    if not values:
        raise ValueError(f"{name}: got an empty list, accepted: at least one value")
    return [_text(name, item) for item in values]


def _text(name, value):
    """The value as the program reads it; numbers keep their bits."""
    if isinstance(value, (str, os.PathLike)):
        return checked_text(name, os.fsdecode(value))
    if isinstance(value, bool):
        raise TypeError(f"{name}: got {value!r}, accepted: a number, a text or several")
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if is_array(value):
        value = value.ravel()
    if is_array(value) or isinstance(value, (list, tuple, range)):
        if len(value) == 0:
            raise ValueError(f"{name}: got an empty list, accepted: at least one value")
        if is_array(value) and value.dtype.kind == "f":
            return ",".join(map(repr, value.astype(float).tolist()))
        return ",".join(_text(name, item) for item in value)
    raise TypeError(f"{name}: got {type(value).__name__}, accepted: a number, a text or several")


def docstring(command):
    """The help of the program, in Python's words."""
    parts = [command["description"] + ".", "", _in_python(command["explanation"]).strip(), ""]
    parts += ["Parameters", "----------"]
    for option in command["options"]:
        form = "bool" if option["is_flag"] else option["form"]
        about = _in_python(option["help"])
        # Arrays are in the result, and in a file where one is named.
        about = about.removesuffix(", required") if option["name"] == "--out" else about
        parts += [f"{python_name(option['name'])} : {form}", f"    {about}"]
    parts += [
        "progress : callable",
        "    Called with what is done and how much there is, while the work goes on",
        "",
        "Returns",
        "-------",
        result_class_name(command),
        "    Its attributes have the names of the program's JSON",
        "",
        "Raises",
        "------",
        "ValueError",
        "    An argument that cannot be worked with: its name, what it got, what is accepted",
        "",
        "Examples",
        "--------",
    ]
    parts += [">>> " + example_call(example, command) for example in command["examples"]]
    return "\n".join(parts)


_OPTION = r"--(?!json|help)([a-z][a-z0-9-]*)"


def _keyword(match):
    return python_name(match[1])


def _named_in_python(line, options):
    """A refusal by the keyword, or the several, that it is about."""
    names = {option["name"]: name for name, option in options.items()}
    about, colon, rest = line.partition(": ")
    about = about.split(", ")
    if not colon or not all(name in names for name in about):
        return re.sub("^" + _OPTION, _keyword, line)
    return ", ".join(names[name] for name in about) + colon + rest


def _in_python(text):
    """Options by the names of the keywords that stand for them."""
    named = re.sub(r"batchless ([a-z-]+) --help", r"\1()", text)
    # The result is what the program prints with --json.
    named = re.sub(r"(^|[.] )--json", r"\1The result", named).replace("--json", "the result")
    return re.sub(_OPTION, _keyword, named)


def example_call(example, command):
    """A command line as the call that does the same."""
    words = shlex.split(example)[1:]
    options = {option["name"]: option for option in command["options"]}
    positional = [name for name in options if not name.startswith("--")]
    arguments = []
    repeated = {}
    while words:
        word = words.pop(0)
        if word == "--json":
            continue
        if not word.startswith("--") and options[positional[0]]["is_repeated"]:
            repeated.setdefault(python_name(positional[0]), []).append(word)
        elif not word.startswith("--"):
            arguments.append(f"{python_name(positional.pop(0))}={word!r}")
        elif options[word]["is_flag"]:
            arguments.append(f"{python_name(word)}=True")
        elif options[word]["is_repeated"]:
            repeated.setdefault(python_name(word), []).append(words.pop(0))
        else:
            arguments.append(f"{python_name(word)}={_literal(words.pop(0))}")
    arguments += [f"{name}={_literals(values)}" for name, values in repeated.items()]
    return f"batchless.{python_name(command['name'])}({', '.join(arguments)})"


def _literal(word):
    if re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", word):
        return word
    if re.fullmatch(r"(-?[0-9.]+(e-?[0-9]+)?,)+-?[0-9.]+(e-?[0-9]+)?", word):
        return "[" + word.replace(",", ", ") + "]"
    return repr(word)


def _literals(words):
    """Several words; the shell makes names of a pattern, in Python glob does."""
    if len(words) == 1 and "*" in words[0]:
        return f"glob.glob({words[0]!r})"
    return repr(words)
