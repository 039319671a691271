"""Fails, with a line for each, where claims do not hold that follow from equations alone.

    python3 -m figures.lib.gate

Reads build/figures/data/claims.json, which the report has written by then, and lists what holds in
gate.txt beside it.
"""

from __future__ import annotations

import json
import sys

from figures.lib import spec as specs


def main() -> int:
    data = specs.OUTPUT / "data"
    claims = json.loads((data / "claims.json").read_text(encoding="utf-8"))["claims"]
    gating = [claim for claim in claims if claim["gates"]]
    failed = [claim for claim in gating if claim["verdict"] != "reproduced"]
    for claim in failed:
        print(f"claim {claim['id']}: {claim['verdict']}: {claim['measured']}", file=sys.stderr)
    if not failed:
        names = "".join(claim["id"] + "\n" for claim in gating)
        (data / "gate.txt").write_text(names, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
