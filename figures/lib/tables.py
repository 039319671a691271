"""The data files as plots and claims see them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np


class DataError(ValueError):
    """A data file without what was asked of it; one line that names the file."""


class Incomplete(ValueError):
    """Why nothing can be tested: runs that are still to come, in most cases."""


class Table:
    """Columns of a CSV file: numbers where every entry is one, else text."""

    def __init__(self, columns: dict[str, np.ndarray], source: str = "table"):
        self.columns = columns
        self.source = source

    @classmethod
    def read(cls, path: Path) -> Table:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        if len(rows) < 2:
            raise DataError(f"{path}: no rows")
        columns = {}
        for name, *entries in zip(*rows, strict=True):
            try:
                # A value that does not exist, like a prediction after the last update, is empty.
                columns[name] = np.array([float(e) if e else np.nan for e in entries])
            except ValueError:
                columns[name] = np.array(entries)
        return cls(columns, str(path))

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise DataError(f"{self.source}: no column '{name}', there are: {known}")
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, **values) -> Table:
        """The rows with these values; numbers to 12 digits, a pair [low, high] is a range, of texts a list
        says which."""
        keep = np.ones(len(self), dtype=bool)
        for name, value in values.items():
            column = self[name]
            if isinstance(value, str):
                keep &= column == value
            elif isinstance(value, (list, tuple)) and isinstance(value[0], str):
                keep &= np.isin(column, value)
            elif isinstance(value, (list, tuple)):
                keep &= (column >= value[0]) & (column <= value[1])
            else:
                keep &= np.isclose(column, value, rtol=1e-12, atol=1e-12)
        if not keep.any():
            raise DataError(f"{self.source}: no row with {values}")
        return self.keep(keep)

    def keep(self, rows: np.ndarray) -> Table:
        return Table({name: column[rows] for name, column in self.columns.items()}, self.source)

    def by(self, *names: str) -> dict[tuple, Table]:
        """The rows of each combination of values in these columns."""
        keys = list(zip(*(self[name] for name in names), strict=True))
        return {key: self.keep(np.array([other == key for other in keys])) for key in dict.fromkeys(keys)}

    def one(self, column: str, **values) -> float:
        """The entry of the single row with these values."""
        rows = self.where(**values)
        if len(rows) != 1:
            raise DataError(f"{self.source}: {len(rows)} rows with {values}, one wanted")
        return float(rows[column][0])


class Data:
    """One figure's folder of data files."""

    def __init__(self, folder: Path):
        self.folder = folder

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file()

    def table(self, name: str) -> Table:
        return Table.read(self.folder / name)

    def manifest(self) -> dict:
        path = self.folder / "manifest.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        with np.load(self.folder / name) as file:
            return {key: file[key] for key in file.files}
