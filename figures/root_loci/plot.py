import numpy as np
from matplotlib.colors import LogNorm

from figures.lib import style

PANELS = [("sgdm", 0), ("sgdm", 4), ("sc", 4), ("lwp-v", 4), ("lwp-v+sc", 4), ("lwp-w+sc", 4)]
MOMENTUM = 0.9
LIMIT = 1.45


def locus(ax, roots, delay, critical, norm):
    z = roots["real"] + 1j * roots["imag"]
    turn = np.linspace(0, 2 * np.pi, 400)
    ax.plot(np.cos(turn), np.sin(turn), color="black", linewidth=0.8, zorder=1)
    # Thousands of points: pixels in the PDF, the axes stay vectors.
    dots = ax.scatter(
        z.real, z.imag, c=roots["rate"], norm=norm, s=1.2, linewidths=0, cmap="viridis",
        rasterized=True, zorder=2,
    )
    # p(z) at x = 0 is z^n (z - 1)(z - m).
    starts = [1, MOMENTUM] + ([0] if delay else [])
    ax.plot(starts, np.zeros(len(starts)), "x", color="black", markersize=4, zorder=3)
    rates = np.unique(roots["rate"])
    near = rates[np.argmin(np.abs(np.log(rates / critical)))]
    at = z[roots["rate"] == near]
    crossing = at[np.isclose(np.abs(at), np.max(np.abs(at)), rtol=1e-6)]
    ax.plot(crossing.real, crossing.imag, "D", color="#D55E00", markersize=3.4, zorder=4)
    ax.text(
        0.98, 0.02, f"$x_c$ = {critical:.3g}", transform=ax.transAxes, ha="right", va="bottom"
    )
    ax.set_aspect("equal")
    ax.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    return dots


def draw(data):
    fig, axes = style.plt.subplots(
        2, 3, figsize=(style.PAGE, 4.5), sharex=True, sharey=True
    )
    norm = LogNorm(1e-6, 10)
    for k, (ax, (rule, delay)) in enumerate(zip(axes.flat, PANELS, strict=True)):
        roots = data.table(f"{rule}_d{delay}.csv")
        file = "critical_d0.csv" if delay == 0 else f"critical_{rule}_d{delay}.csv"
        critical = data.table(file)["critical_rate"][0]
        dots = locus(ax, roots, delay, critical, norm)
        style.panel(ax, "abcdef"[k], f"{style.LOOKS[rule].label}, $D$ = {delay}")
    for ax in axes[-1]:
        ax.set_xlabel("Re $z$")
    for ax in axes[:, 0]:
        ax.set_ylabel("Im $z$")
    bar = fig.colorbar(dots, ax=axes, shrink=0.7, pad=0.02)
    bar.set_label("normalised rate $x$")
    bar.ax.grid(False)
    return fig
