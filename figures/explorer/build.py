#!/usr/bin/env python3
"""Joins the explorer's page, style, scripts and WebAssembly into one HTML file.

Usage: build.py explorer.wasm explorer.html

Colours are those of the figures: the map's from the heat maps, the passes' from the style.
"""

import base64
import gzip
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from figures.heat_maps import plot as heat_maps  # noqa: E402
from figures.lib import style  # noqa: E402

# In this order: each may use those before it while the page is loaded.
SCRIPTS = ["state", "engine", "plots", "map", "schedules", "controls", "main"]


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
    }


def styles() -> str:
    rules = [f"i.{name.replace(' ', '-')} {{ background: {color}; }}" for name, color in style.PASSES.items()]
    rules.append(f"i.diverges {{ background: {heat_maps.DIVERGES}; }}")
    update = style.LOOKS["lwp-w+sc"].color
    rules.append(f"i.update {{ background: {update}; width: 3px; }} i.best {{ color: {update}; }}")
    return (HERE / "style.css").read_text() + "\n".join(rules) + "\n"


def main() -> None:
    wasm, page = Path(sys.argv[1]), Path(sys.argv[2])
    packed = base64.b64encode(gzip.compress(wasm.read_bytes(), mtime=0)).decode()
    script = ['"use strict";', f"const THEME = {json.dumps(theme())};"]
    script += [(HERE / f"{name}.js").read_text() for name in SCRIPTS]
    # main.js runs when it is there.
    script.insert(2, f'const WASM = "{packed}";')
    html = (HERE / "index.html").read_text()
    html = html.replace("/*STYLE*/", styles()).replace("/*SCRIPT*/", "\n".join(script))
    page.parent.mkdir(parents=True, exist_ok=True)
    scratch = page.with_name(f".{page.name}.{os.getpid()}")
    scratch.write_text(html)
    os.replace(scratch, page)


if __name__ == "__main__":
    main()
