from figures.lib import study
from figures.published_speedups.published import label, two_gpus

COLUMNS = (
    "network",
    "pipelined, published",
    "planned",
    "off by",
    "hybrid, published",
    "planned",
    "off by",
)


def tables(data, manifest):
    rows = [
        (label(network), *numbers(*pipelined), *numbers(*hybrid))
        for network, pipelined, hybrid in two_gpus(data)
    ]
    return [study.ReportTable("Two GPUs over one.", COLUMNS, tuple(rows))]


def numbers(published, planned):
    return (
        study.text(published, 2),
        study.text(planned, 2),
        f"{study.text(100 * (planned / published - 1), 0)} %",
    )
