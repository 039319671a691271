import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

from figures.lib import style

PANELS = [("sgdm", 0), ("sgdm", 4), ("sc", 4), ("lwp-v", 4), ("lwp-v+sc", 4), ("lwp-w+sc", 4)]
MOMENTUM = 0.9
LIMIT = 1.45


def locus(ax, roots, critical, norm):
    turn = np.linspace(0, 2 * np.pi, 400)
    ax.plot(np.cos(turn), np.sin(turn), color="black", linewidth=0.8, zorder=1)
    rates, z = branches(roots)
    # Thousands of pieces: pixels in the PDF, the axes stay vectors.
    pieces = np.stack([z[:-1].ravel(), z[1:].ravel()], axis=1)
    lines = LineCollection(
        np.stack([pieces.real, pieces.imag], axis=2), array=np.repeat(rates[1:], z.shape[1]),
        norm=norm, cmap="viridis", linewidths=1.4, capstyle="round", rasterized=True, zorder=2,
    )
    ax.add_collection(lines)
    starts = np.unique(z[0].real)
    ax.plot(starts, np.zeros(len(starts)), "x", color="black", markersize=4, zorder=3)
    near = np.argmin(np.abs(np.log(roots["rate"] / critical)))
    own = roots["rate"] == roots["rate"][near]
    at = roots["real"][own] + 1j * roots["imag"][own]
    crossing = at[np.isclose(np.abs(at), np.max(np.abs(at)), rtol=1e-6)]
    ax.plot(crossing.real, crossing.imag, "D", color="#D55E00", markersize=3.4, zorder=4)
    ax.text(
        0.98, 0.02, f"$x_c$ = {critical:.3g}", transform=ax.transAxes, ha="right", va="bottom"
    )
    ax.set_aspect("equal")
    ax.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    return lines


def branches(roots):
    """Rates from 0, and the roots at each: what is in one column moves continuously.

    p(z) at x = 0 is z^n (z - 1)(z - m). From one rate to the next each root goes to the nearest one,
    the closest pair first. A conjugate pair comes and goes by a double root on the real axis, which lies
    between two rates and is added.
    """
    rates = np.unique(roots["rate"])
    z = (roots["real"] + 1j * roots["imag"])[np.argsort(roots["rate"], kind="stable")]
    z = z.reshape(len(rates), -1)
    last = np.zeros(z.shape[1], dtype=complex)
    last[:2] = 1, MOMENTUM
    passed, joined = [0.0], [last]
    for rate, free in zip(rates, z, strict=True):
        far = np.abs(last[:, None] - free)
        following = np.empty_like(last)
        for _ in free:
            here, there = np.unravel_index(np.argmin(far), far.shape)
            following[here] = free[there]
            far[here, :] = far[:, there] = np.inf
        pair = (last.imag == 0) != (following.imag == 0)
        if np.count_nonzero(pair) == 2:
            middle = (last + following) / 2
            middle[pair] = np.mean(middle[pair].real)
            passed.append(rate)
            joined.append(middle)
        passed.append(rate)
        joined.append(following)
        last = following
    return np.array(passed), np.array(joined)


def draw(data):
    fig, axes = style.plt.subplots(
        2, 3, figsize=(style.PAGE, 4.5), sharex=True, sharey=True
    )
    norm = LogNorm(1e-6, 10)
    for k, (ax, (rule, delay)) in enumerate(zip(axes.flat, PANELS, strict=True)):
        roots = data.table(f"{rule}_d{delay}.csv")
        file = "critical_d0.csv" if delay == 0 else f"critical_{rule}_d{delay}.csv"
        critical = data.table(file)["critical_rate"][0]
        lines = locus(ax, roots, critical, norm)
        style.panel(ax, "abcdef"[k], f"{style.LOOKS[rule].label}, $D$ = {delay}")
    for ax in axes[-1]:
        ax.set_xlabel("Re $z$")
    for ax in axes[:, 0]:
        ax.set_ylabel("Im $z$")
    bar = fig.colorbar(lines, ax=axes, shrink=0.7, pad=0.02)
    bar.set_label("normalised rate $x$")
    bar.ax.grid(False)
    return fig
