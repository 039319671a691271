import numpy as np

from figures.lib import style

DELAY = 6
UPDATE = 17  # the one that panel (a) takes apart
ARROW = 0.55  # length of an arrow per unit of relative gradient
PATHS = {"undelayed-sgdm": "sgdm_d0", "sgdm": "sgdm_d6", "lwp-v": "lwp-v_d6"}
LABELS = {"sgdm": "SGDM, $D$ = 6", "lwp-v": "LWPv$_D$, $D$ = 6"}


def path(data, name, column="weight"):
    """(updates + 1, 2): the flat direction across, the steep one up."""
    return np.stack([data.table(f"{axis}_{name}.csv")[column] for axis in ("flat", "steep")], 1)


def bowl(ax, curvatures, xlim, ylim, levels):
    x, y = np.meshgrid(np.linspace(*xlim, 120), np.linspace(*ylim, 120))
    loss = curvatures[0] * x**2 + curvatures[1] * y**2
    ax.contour(x, y, loss, levels, colors="#d0d0d0", linewidths=0.6, zorder=0)
    ax.plot(0, 0, "+", color="#808080", markersize=6, zorder=1)
    ax.set(xlim=xlim, ylim=ylim, xlabel="flat direction", ylabel="steep direction")
    ax.grid(False)


def take_apart(ax, data, curvatures):
    weights, predicted = path(data, "lwp-v_d6"), path(data, "lwp-v_d6", "predicted_weight")
    look = style.LOOKS["lwp-v"]
    stretch = slice(UPDATE - DELAY - 3, UPDATE + 5)
    ax.plot(*weights[stretch].T, color=look.color, marker=".", markersize=3, zorder=2)
    old, new, guess = weights[UPDATE - DELAY], weights[UPDATE], predicted[UPDATE]
    ax.plot(*np.stack([old, guess]).T, color="#606060", linestyle=(0, (2, 1.5)), zorder=2)
    for place, marker, color, text, offset in (
        (old, "s", "#0072B2", "old weights,\nlate gradient", (6, 0)),
        (guess, "^", "#D55E00", "predicted", (6, -2)),
        (new, "o", "#000000", "current", (-8, 12)),
    ):
        tip = place - ARROW * curvatures * place
        shape = {"arrowstyle": "-|>", "color": color, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=tip, xytext=place, arrowprops=shape, zorder=3)
        ax.plot(*place, marker, color=color, markersize=5, zorder=4)
        ax.annotate(
            text, place, offset, textcoords="offset points", color=color,
            ha="left" if offset[0] > 0 else "right", va="center",
        )


def draw(data):
    fig, (close, far, distance), below = style.panels(2.75, 3, 0.08, width_ratios=[1.15, 1, 1])
    # Relative to the steep direction: the ratio of the normalised rates in the runs.
    curvatures = np.array([0.25, 1.0])

    bowl(close, curvatures, (0.3, 1.3), (-0.35, 0.8), np.linspace(0.02, 1.2, 12))
    take_apart(close, data, curvatures)
    bowl(far, curvatures, (-0.15, 1.05), (-0.9, 1.05), np.linspace(0.02, 1.2, 10))
    handles = []
    for k, (look, name) in enumerate(PATHS.items()):
        weights = path(data, name)
        label = {"label": LABELS.get(look, style.LOOKS[look].label)}
        style.curve(far, *weights.T, look, 16, k / 3, linewidth=1.0, **label)
        norm = np.linalg.norm(weights, axis=1)
        handles.append(
            style.curve(distance, np.arange(len(norm)), norm, look, 7, k / 3, **label)
        )
    distance.set(yscale="log", xlabel="update", ylabel="distance to the minimum")
    distance.set_xlim(0, len(norm) - 1)
    style.titles((close, far, distance), "one update", "paths", "convergence")
    style.legend_below(fig, below, handles, 3)
    return fig
