"""What the papers report, and the same from the planner's data."""

from figures.lib.checks import hybrid

# Zhang and Abdelrahman, doi 10.1155/2021/3839543, table 5: seconds plain, pipelined, half pipelined.
SECONDS = {
    "resnet56": (6745, 4090, 5429),
    "resnet110": (13150, 7570, 10452),
    "resnet224": (27231, 14998, 21245),
    "resnet362": (44814, 24640, 34814),
}
# Narayanan et al., arXiv 2006.09503: 2BW over GPipe, up to.
OVER_GPIPE = 3.2
MODELS = {"gpt2-medium": "GPT-2 medium", "gpt2-xl": "GPT-2 XL", "bert-large": "BERT large"}
BATCHES = (64, 128, 256, 512, 1024, 2048)


def label(network):
    return network.replace("resnet", "ResNet-")


def rate(data, name):
    return data.table(name).one("samples_per_second")


def two_gpus(data):
    """(network, (published, planned) pipelined, the same hybrid)."""
    found = []
    for network, (plain, pipelined, half) in SECONDS.items():
        speedup = rate(data, f"{network}_two.csv") / rate(data, f"{network}_one.csv")
        found.append((network, (plain / pipelined, speedup), (plain / half, hybrid(speedup, 0.5))))
    return found


def over_gpipe(data, model):
    return [
        rate(data, f"{model}_2bw_{batch}.csv") / rate(data, f"{model}_gpipe_{batch}.csv")
        for batch in BATCHES
    ]
