import numpy as np

from figures.lib import style

CURVES = {"undelayed-sgdm": "sgdm_d0.csv", "sgdm": "sgdm_d8.csv", "sc": "sc_d8.csv"}
LABELS = {"sgdm": "SGDM, $D$ = 8", "sc": "SC$_D$, $D$ = 8"}


def draw(data):
    fig, (velocity, step, total), below = style.panels(2.35, 3, 0.08)
    names = ("velocity $v$", "step $-\\Delta w/\\eta$", "contribution $-w/\\eta$")
    style.titles((velocity, step, total), *names)
    handles = []
    for k, (look, name) in enumerate(CURVES.items()):
        table = data.table(name)
        update, weight = table["update"], table["weight"]
        label = {"label": LABELS.get(look, style.LOOKS[look].label)}
        # The undelayed curve lies under the compensated one: dashes on top keep both visible.
        label["zorder"] = 4 if look == "undelayed-sgdm" else 2
        handles.append(
            style.curve(velocity, update, table["velocity"], look, 6, k / 3, **label)
        )
        style.curve(step, update[1:], -np.diff(weight), look, 6, k / 3, **label)
        style.curve(total, update, -weight, look, 6, k / 3, **label)
    for ax in (velocity, step, total):
        ax.set_xlabel("update")
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, update[-1])
    style.legend_below(fig, below, handles, 3)
    return fig
