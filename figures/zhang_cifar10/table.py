from figures.lib import stale_weights, study
from figures.lib.checks import hybrid
from figures.published_speedups.published import SECONDS, rate

NETWORK = "resnet56"
TRAINING = ("ResNet-56, (19)", "ResNet-56, (19), hybrid")
COLUMNS = ("", "accuracy less plain, published", "here", "speedup, published", "predicted")


def tables(data, manifest):
    return [*stale_weights.tables(data, manifest), table_5(data)]


def table_5(data):
    """Speed and accuracy of ResNet-56 on two GPUs."""
    plain, *seconds = SECONDS[NETWORK]
    speedup = rate(data, f"{NETWORK}_two.csv") / rate(data, f"{NETWORK}_one.csv")
    found = {}
    for table in filter(None, study.panels(data)):
        found |= {row.name: row.differences for row in stale_weights.rows(data, table)}
    lines = []
    for name, took, share in zip(TRAINING, seconds, (1, 0.5), strict=True):
        here = found.get(name, ())
        lines.append(
            (
                name,
                study.text(stale_weights.PUBLISHED[name]),
                study.text(float(here.mean())) if len(here) else "–",
                study.text(plain / took),
                study.text(hybrid(speedup, share)),
            )
        )
    caption = (
        "ResNet-56 by table 5 of doi 10.1155/2021/3839543, on two GPUs that are not known here, and as "
        "trained here, in points; speedups are predicted for two V100s."
    )
    return study.ReportTable(caption, COLUMNS, tuple(lines))
