from figures.lib import style

# File, look, time of an update at D = 4 and at D = 16.
SGD = ("sgd", "sgdm", 0.3, 0.075)
PANELS = [
    ("SGD, no momentum", [SGD]),
    ("SGDM and LWPw$_D$+SC$_D$", [("sgdm", "sgdm", 0.15, 0.0375), ("lwp-w+sc", "lwp-w+sc", 0.15, 0.0375)]),
    ("SC$_D$", [("sc", "sc", 0.15, 0.0375)]),
    ("LWP$_D$", [("lwp-v", "lwp-v", 0.15, 0.0375)]),
]


def draw(data):
    fig, axes = style.plt.subplots(2, 2, figsize=(style.PAGE, 3.9), sharey=True)
    for k, (ax, (title, curves)) in enumerate(zip(axes.flat, PANELS, strict=True)):
        for name, look, coarse, fine in curves:
            limit = data.table(f"{name}.csv")
            ax.plot(limit["time"], limit["weight"], **style.LOOKS[look].line | {"linestyle": "-"})
            for delay, step, marker, size, every in ((4, coarse, "x", 4, 2), (16, fine, ".", 3.5, 5)):
                points = data.table(f"{name}_d{delay}.csv")
                ax.plot(
                    points["update"] * step, points["weight"], marker, markersize=size,
                    markevery=every, color=style.LOOKS[look].color, label=f"$D$ = {delay}",
                )
        ax.axhline(0, color="#999999", linewidth=0.6)
        style.panel(ax, "abcd"[k], title)
        ax.set_xlabel("time")
        ax.set_xlim(0, 18 if k == 0 else 12)
    for ax in axes[:, 0]:
        ax.set_ylabel("weight")
    style_handles = axes[1, 0].get_legend_handles_labels()[0]
    for handle, label in zip(style_handles, ("limit", "$D$ = 4", "$D$ = 16"), strict=True):
        handle.set_label(label)
    axes[1, 0].legend(handles=style_handles, loc="upper right")
    axes[0, 1].legend(
        handles=[line for line in axes[0, 1].lines if line.get_linestyle() == "-"][:2], loc="upper right"
    )
    return fig
