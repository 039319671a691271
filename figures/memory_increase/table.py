from figures.lib import study
from figures.memory_increase.published import CASES, SCHEMES, increase, megabytes

INCREASES = ("network", "register after weight layer") + tuple(
    column for name in SCHEMES.values() for column in (f"{name}, published", "predicted", "points")
)
SIZES = (
    "network",
    "activations of a sample, published",
    "predicted",
    "kept by stages like ours",
    "weights, published",
    "predicted",
    "PipeDream less stale training, published",
    "4 W / (A + W) from what is published",
)


def tables(data, manifest):
    rows = [(case.label, case.place, *numbers(data, case)) for case in CASES]
    # The register's place changes no size.
    networks = {case.label: case for case in CASES}.values()
    return [
        study.ReportTable("Increase in percent.", INCREASES, tuple(rows)),
        study.ReportTable(
            "Sizes in MB (2^20 bytes), and four further copies of the weights in percent.",
            SIZES,
            tuple(sizes(data, case) for case in networks),
        ),
    ]


def numbers(data, case):
    for scheme in SCHEMES:
        published, predicted = increase(data, case, scheme)
        yield study.text(published, 0)
        yield study.text(predicted, 1)
        yield study.text(predicted - published, 1)


def sizes(data, case):
    row = case.published
    return (
        case.label,
        study.text(row.activations),
        study.text(megabytes(data, case, "activation_bytes") / row.minibatch),
        study.text(megabytes(data, case, "kept_activation_bytes") / row.minibatch),
        study.text(row.weights),
        study.text(megabytes(data, case, "weight_bytes")),
        study.text(row.pipedream - row.stale, 0),
        study.text(row.weight_copies, 1),
    )
