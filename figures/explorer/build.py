#!/usr/bin/env python3
"""Joins a page's HTML, style, scripts and the WebAssembly into one HTML file.

Usage: build.py explorer.wasm explorer.html explainer.html

Colours are those of the figures: the map's from the heat maps, the passes' from the style.
"""

import base64
import gzip
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from experiments.command_line import replace  # noqa: E402
from figures.heat_maps import plot as heat_maps  # noqa: E402
from figures.lib import style  # noqa: E402

# In this order: each may use those before it while the page is loaded.
SCRIPTS = ["state", "engine", "plots", "map", "schedules", "controls", "figure", "pipeline"]


def bytes_of(color) -> list[int]:
    rgb = style.matplotlib.colors.to_rgb(color)
    return [round(255 * part) for part in rgb]


def theme() -> dict:
    viridis = style.plt.get_cmap("viridis")
    return {
        "viridis": [bytes_of(viridis(index)[:3]) for index in range(256)],
        "norm": [heat_maps.NORM.vmin, heat_maps.NORM.vmax],
        "diverges": bytes_of(heat_maps.DIVERGES),
        "halfLives": heat_maps.HALF_LIVES,
        "passes": style.PASSES,
        "update": style.LOOKS["lwp-w+sc"].color,
        "rules": {name: look.color for name, look in style.LOOKS.items()},
    }


def styles() -> str:
    rules = [f"i.{name.replace(' ', '-')} {{ background: {color}; }}" for name, color in style.PASSES.items()]
    rules.append(f"i.diverges {{ background: {heat_maps.DIVERGES}; }}")
    update = style.LOOKS["lwp-w+sc"].color
    rules.append(f"i.update {{ background: {update}; width: 3px; }} i.best {{ color: {update}; }}")
    return (HERE / "style.css").read_text() + "\n".join(rules) + "\n"


def write(page: Path, packed: str) -> None:
    """`page` is the file to write, and its name that of its parts: the first line of its HTML is its title,
    and its own script comes last."""
    parts = [HERE / f"{page.stem}{suffix}" for suffix in (".html", ".css", ".js")]
    script = ['"use strict";', f"const THEME = {json.dumps(theme())};", f'const WASM = "{packed}";']
    script += [path.read_text() for path in [*(HERE / f"{name}.js" for name in SCRIPTS), parts[2]]]
    css = styles() + (parts[1].read_text() if parts[1].exists() else "")
    title, body = parts[0].read_text().split("\n", 1)
    html = (HERE / "page.html").read_text()
    for mark, text in [
        ("<!--TITLE-->", title + "\n"),
        ("<!--BODY-->", body),
        ("/*STYLE*/", css),
        ("/*SCRIPT*/", "\n".join(script)),
    ]:
        html = html.replace(mark, text)
    page.parent.mkdir(parents=True, exist_ok=True)
    replace(page, html)


def main() -> None:
    wasm, *pages = map(Path, sys.argv[1:])
    packed = base64.b64encode(gzip.compress(wasm.read_bytes(), mtime=0)).decode()
    for page in pages:
        write(page, packed)


if __name__ == "__main__":
    main()
