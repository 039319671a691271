import numpy as np

from figures.lib import style


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 4.0))
    grid = fig.add_gridspec(3, 2, height_ratios=[1, 1, 0.2], width_ratios=[1.15, 1])
    magnitude = fig.add_subplot(grid[0, 0])
    phase = fig.add_subplot(grid[1, 0], sharex=magnitude)
    plane = fig.add_subplot(grid[:2, 1])
    tables = {rule: data.table(f"{rule}.csv") for rule in style.RULES}
    handles = style.curves(magnitude, tables, "frequency_radians", "magnitude")
    style.curves(phase, tables, "frequency_radians", lambda rows: np.degrees(rows["phase_radians"]))
    style.curves(plane, tables, "real", "imag", 40, markersize=3)
    magnitude.axhline(1, color="#404040", linewidth=0.8)
    magnitude.set(xscale="log", yscale="log", ylabel="magnitude $|L|$", ylim=(1e-3, 1e2))
    magnitude.tick_params(labelbottom=False)
    phase.axhline(-180, color="#404040", linewidth=0.8)
    phase.set(
        ylim=(-540, -60), yticks=[-540, -360, -180], ylabel="phase (degrees)",
        xlabel="frequency $\\theta$ (radians per update)",
    )
    plane.plot(-1, 0, "+", color="#000000", markersize=10, markeredgewidth=1.6)
    plane.set(xlim=(-2.2, 0.8), ylim=(-1.9, 1.1), xlabel="Re $L$", ylabel="Im $L$", aspect="equal")
    style.titles((magnitude, phase, plane), "magnitude", "phase", "Nyquist plot")
    style.legend_below(fig, grid[2, :], handles, 5)
    return fig
