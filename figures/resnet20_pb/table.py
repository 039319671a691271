from figures.lib import study


def tables(data, manifest):
    return [
        study.comparison(file, table, manifest, "PB") if table else study.waiting()
        for file, table in study.results(data).items()
    ]
