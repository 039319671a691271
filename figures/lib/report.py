"""Writes build/figures/report.html and data/claims.json from pictures, manifests and claims.

    python3 -m figures.lib.report --program build/bin/batchless

The page carries its pictures with it and needs neither network nor server.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from experiments import command_line
from experiments.study_runner import flops_per_sample
from figures.lib import claims as claim_table
from figures.lib import spec as specs
from figures.lib import findings, study_figure, waiting
from figures.lib.study import ReportTable
from figures.lib.tables import Data, DataError

MINUS = "\N{MINUS SIGN}"


def picture(path: Path) -> dict:
    """A PNG as data URI with its size, so that the page keeps its place while it loads."""
    data = path.read_bytes()
    width, height = (int.from_bytes(data[k : k + 4], "big") for k in (16, 20))
    uri = "data:image/png;base64," + base64.b64encode(data).decode("ascii")
    return {"uri": uri, "width": width, "height": height}


def distinct(manifests: list[dict], *path: str) -> str:
    """A value of the manifests; all of them where the data come from more than one origin."""
    found = []
    for manifest in manifests:
        value = manifest
        for key in path:
            value = value.get(key, "unknown")
            if not isinstance(value, dict):
                break
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        if text not in found:
            found.append(text)
    return "; ".join(found)


def origin(manifests: list[dict]) -> list[tuple[str, str]]:
    dates = sorted(manifest["date"] for manifest in manifests)
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    seconds = sum(manifest["seconds"] for manifest in manifests)
    return [
        ("Version", distinct(manifests, "program", "version")),
        ("Commit", distinct(manifests, "program", "commit")),
        ("Compiler", distinct(manifests, "program", "compiler")),
        ("Flags", distinct(manifests, "program", "flags")),
        ("Processor", distinct(manifests, "machine", "cpu")),
        ("Processors used", distinct(manifests, "machine", "processors")),
        ("System", distinct(manifests, "machine", "system")),
        ("Tier", distinct(manifests, "tier")),
        ("Date", days),
        ("Time in the program", f"{seconds:.1f} s"),
    ]


def size(count: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000 or unit == "MB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"


def mathematics(text: str) -> Markup:
    """LWP_2D, 10^-13 and z^{-D} with the lowered and raised parts as such, `names` of files as code; 15 % and
    D = 1 stay on one line."""
    return Markup("").join(
        Markup("<code>%s</code>") % part if k % 2 else _mathematics(part)
        for k, part in enumerate(text.split("`"))
    )


def _mathematics(text: str) -> Markup:
    html = re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", str(escape(text)))
    html = re.sub(r"\b([A-Za-zκ]) = (?=\w)", "\\1\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}", html)
    html = re.sub(
        r"(?<=[A-Za-zλ|])_(2?[DTd]|\d+|max|c|fwd|bwd|forward|backward)(?![A-Za-z0-9])", r"<sub>\1</sub>", html
    )
    # A minus sign, where a browser would break the line after a hyphen.
    return Markup(
        re.sub(
            r"\^\{?(-?)(\d+|[A-Za-z]+)\}?",
            lambda power: f"<sup>{power[1].replace('-', MINUS)}{power[2]}</sup>",
            html,
        )
    )


def render(
    figures: list[dict],
    results: list,
    manifests: list[dict],
    has_explorer: bool = False,
    to_come: ReportTable | None = None,
    found: Sequence[findings.Part] = (),
) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(specs.ROOT / "lib"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"size": size, "mathematics": mathematics}
    return environment.get_template("report.html.j2").render(
        figures=figures,
        claims=results,
        counts=claim_table.count(results),
        kinds=claim_table.KINDS,
        verdicts=claim_table.VERDICTS,
        origin=origin(manifests),
        has_explorer=has_explorer,
        to_come=to_come,
        found=found,
        pictures={figure["name"]: figure for figure in figures},
    )


def tables(spec: specs.Spec, manifest: dict) -> list:
    """A figure with a `table.py` has tables beside its picture: `tables(data, manifest)`; so has one
    of a study."""
    if spec.plot is not None:
        return study_figure.tables(Data(spec.data), manifest, spec.plot)
    if not (spec.folder / "table.py").is_file():
        return []
    module = importlib.import_module(f"figures.{spec.name}.table")
    return module.tables(Data(spec.data), manifest)


def main() -> int:
    parser = argparse.ArgumentParser(prog="figures.lib.report", description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    try:
        queue = waiting.Queue(lambda network: flops_per_sample(program, network))
        to_come = queue.table()
        data = specs.OUTPUT / "data"
        claims = claim_table.load(specs.ROOT / "claims")
        results = [
            replace(result, hours=round(queue.hours_of(claim), 1))
            if result.verdict == "not tested"
            else result
            for claim, result in zip(
                claims, claim_table.evaluate(claims, lambda figure: Data(data / figure)), strict=True
            )
        ]
        found = findings.load(results)
        figures = []
        for number, spec in enumerate(specs.drawn(), 1):
            manifest = json.loads((spec.data / "manifest.json").read_text(encoding="utf-8"))
            figures.append(
                vars(spec)
                | {
                    "number": number,
                    "manifest": manifest,
                    "tables": tables(spec, manifest),
                    "picture": picture(specs.OUTPUT / f"{spec.name}.png"),
                }
            )
    except (specs.SpecError, claim_table.ClaimError, DataError, command_line.UsageError, OSError) as error:
        print(f"figures: report: {error}", file=sys.stderr)
        return 1
    summary = claim_table.as_json(results)
    command_line.replace(data / "claims.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    manifests = [figure["manifest"] for figure in figures]
    has_explorer = (specs.OUTPUT / "explorer.html").is_file()
    page = render(figures, results, manifests, has_explorer, to_come, found)
    command_line.replace(specs.OUTPUT / "report.html", page)
    for provenance, kinds in summary["counts"].items():
        for verification, counts in kinds.items():
            words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            print(f"claims, {provenance}, {verification}: {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
