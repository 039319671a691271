import numpy as np

from figures.lib import style
from figures.memory_increase.published import CASES, SCHEMES, increase


def draw(data):
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, 2.9), sharey=True)
    labels = [
        f"{case.label}, after {case.register}" + ("" if case.printed else " (not printed)")
        for case in CASES
    ]
    places = np.arange(len(CASES))
    colors = ["#0072B2" if case.printed else "#56B4E9" for case in CASES]
    for ax, letter, scheme in zip(axes, "ab", reversed(SCHEMES), strict=True):
        published, predicted = zip(*(increase(data, case, scheme) for case in CASES), strict=True)
        ax.barh(places, predicted, 0.62, color=colors)
        ax.plot(
            published, places, color="#000000", linestyle="", marker="x", label="published"
        )
        ax.set_xlabel("further memory (%)")
        style.panel(ax, letter, SCHEMES[scheme])
    axes[0].set_yticks(places, labels)
    axes[0].invert_yaxis()
    # Above the rows: beside one, its cross would be a value.
    axes[1].legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return fig
