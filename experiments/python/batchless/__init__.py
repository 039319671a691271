"""Staleness analysis and training for pipelined backpropagation.

Each command of the program `batchless` is a function of the same name, with the command's options as
keywords:

>>> batchless.optimum("lwp-w+sc", delay=4, condition=1000).half_life_updates

Results are objects whose attributes have the names of the command's JSON. `help(batchless.optimum)` says
what a function takes; `batchless.Trainer` trains.
"""

from . import commands as _commands
from .result import Result
from .trainer import Evaluation, MetricsRow, SampleResult, Summary, Trainer

_functions = _commands.make_functions(__name__)
globals().update(_functions)

__version__ = _functions["version"]().version
__all__ = ["Evaluation", "MetricsRow", "Result", "SampleResult", "Summary", "Trainer", *_functions]
