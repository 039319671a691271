import numpy as np
from matplotlib.colors import LogNorm, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from figures.lib import style

DELAYS = [1, 4, 66]
HALF_LIVES = [10, 100, 1000, 10000]
# On undelayed SGDM's map: |r| = sqrt(m) where roots are complex, so 1 - m is 2 ln 2 / half-life there.
LABELS = [(-0.9, np.log10(2 * np.log(2) / half_life)) for half_life in HALF_LIVES]
RADII = [0.3, 0.9, 0.99, 0.999, 0.9999, 0.99999]
# Fast is bright; -ln|r| is what 1 - |r| is near 1, and spreads the interesting part out.
NORM = LogNorm(1e-5, 1.2, clip=True)
DIVERGES = "#c9c9c9"


def heat(ax, arrays, labels=()):
    """`labels`: where the half-life lines are to be labelled, (log10 x, log10(1 - m))."""
    rate, momentum = np.log10(arrays["rate"]), arrays["momentum"]
    # 1 - m = 1 is the last row of a log1m axis; m = 1 would have no place on it.
    mu = np.log10(1 - momentum)
    log_radius = arrays["log_spectral_radius"]
    if mu[0] > mu[-1]:
        mu, log_radius = mu[::-1], log_radius[::-1]
    colors = style.plt.get_cmap("viridis")(NORM(-np.minimum(log_radius, -1e-300)))
    colors[log_radius >= 0] = to_rgba(DIVERGES)
    half = [(axis[1] - axis[0]) / 2 for axis in (rate, mu)]
    extent = (rate[0] - half[0], rate[-1] + half[0], mu[0] - half[1], mu[-1] + half[1])
    image = ax.imshow(
        (colors * 255).round().astype(np.uint8), extent=extent, origin="lower", aspect="auto"
    )
    levels = {-np.log(2) / half_life: f"{half_life}" for half_life in HALF_LIVES}
    lines = ax.contour(
        rate, mu, log_radius, sorted(levels), colors="white", linewidths=0.5, linestyles="-"
    )
    if labels:
        ax.clabel(lines, fmt=levels, fontsize=5.5, inline_spacing=2, manual=labels)
    ax.contour(rate, mu, log_radius, [0], colors="black", linewidths=1.1)
    ax.grid(False)
    ax.spines[:].set_visible(True)
    ax.set_xlim(extent[:2])
    ax.set_ylim(extent[2:])
    return image


def label_axes(ax, bottom, left):
    ax.set_xticks([-6, -4, -2, 0])
    ax.set_yticks([-5, -4, -3, -2, -1, 0])
    power = style.plt.FuncFormatter(lambda value, _: f"$10^{{{value:.0f}}}$")
    ax.xaxis.set_major_formatter(power)
    ax.yaxis.set_major_formatter(power)
    ax.tick_params(labelbottom=bottom, labelleft=left)
    if bottom:
        ax.set_xlabel("$x = \\eta\\lambda$")


def key(fig, cell):
    """Colour scale and line styles, in the cells that the two undelayed maps leave free."""
    inner = cell.subgridspec(3, 1, height_ratios=[1, 0.35, 1.2])
    bar = fig.add_subplot(inner[1])
    shades = style.plt.cm.ScalarMappable(NORM, "viridis")
    scale = fig.colorbar(shades, cax=bar, orientation="horizontal")
    bar.invert_xaxis()
    scale.set_ticks([-np.log(r) for r in RADII], labels=[f"{r:g}" for r in RADII])
    scale.minorticks_off()
    bar.set_title("$|r_{max}|$", loc="left")
    bar.grid(False)
    lines = fig.add_subplot(inner[2])
    lines.axis("off")
    lines.legend(
        handles=[
            Line2D([], [], color="black", label="edge of stability"),
            Patch(facecolor=DIVERGES, label="diverges"),
            Line2D(
                [], [], color="white", linewidth=0.8, label="half-life (updates)",
                path_effects=[withStroke(linewidth=7, foreground=shades.to_rgba(1e-2))],
            ),
        ],
        loc="lower center",
        ncol=2,
        borderaxespad=0,
    )


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 6.6))
    grid = fig.add_gridspec(4, 5)
    for column, rule in enumerate(["sgdm", "nesterov"]):
        ax = fig.add_subplot(grid[0, column])
        heat(ax, data.arrays(f"{rule}_d0.npz"), LABELS if rule == "sgdm" else ())
        label_axes(ax, False, column == 0)
        ax.set_title(f"{style.LOOKS[rule].label}")
        if column == 0:
            ax.set_ylabel("$D$ = 0\n$1 - m$")
    key(fig, grid[0, 2:])
    for row, delay in enumerate(DELAYS, 1):
        for column, rule in enumerate(style.RULES):
            ax = fig.add_subplot(grid[row, column])
            heat(ax, data.arrays(f"{rule}_d{delay}.npz"))
            label_axes(ax, row == len(DELAYS), column == 0)
            if row == 1:
                ax.set_title(style.LOOKS[rule].label)
            if column == 0:
                ax.set_ylabel(f"$D$ = {delay}\n$1 - m$")
    return fig
