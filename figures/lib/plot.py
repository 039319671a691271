"""Draws a figure from its data files alone.

    python3 -m figures.lib.plot FIGURE

`figures/FIGURE/plot.py` has `draw(data) -> Figure`; a specification with a `[plot]` table is drawn by
figures/lib/study_figure.py.
"""

from __future__ import annotations

import importlib
import os
import sys

# Font subsets carry a date and a name made from hashes; both have to be the same in every run.
_FIXED = {"SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": "0"}


def main() -> int:
    if any(os.environ.get(key) != value for key, value in _FIXED.items()):
        os.environ.update(_FIXED)
        os.execv(sys.executable, [sys.executable, "-m", "figures.lib.plot", *sys.argv[1:]])
    if len(sys.argv) != 2:
        print("usage: python3 -m figures.lib.plot FIGURE", file=sys.stderr)
        return 2

    from figures.lib import spec as specs
    from figures.lib import style
    from figures.lib.tables import Data, DataError

    name = sys.argv[1]
    try:
        spec = specs.load(name)
        data = Data(spec.data)
        if spec.plot is None:
            drawing = importlib.import_module(f"figures.{name}.plot").draw(data)
        else:
            drawing = importlib.import_module("figures.lib.study_figure").draw(data, spec.plot)
    except (specs.SpecError, DataError, OSError) as error:
        print(f"figures: {name}: {error}", file=sys.stderr)
        return 1
    style.save(drawing, specs.OUTPUT, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
