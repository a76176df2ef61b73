# SPDX-License-Identifier: Apache-2.0
"""Runs as a Parquet dataset (docs/dataset.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tollmeter.library.derive import TABLES, derived_table, open_run, raw_samples
from tollmeter.store.dataset import write_run


def add_run(folder: Path, dataset: Path, names: Sequence[str] = TABLES) -> None:
    """Writes tables of a run into the dataset, in place of the files that it has there. Raises Failure."""
    book = open_run(folder)
    tables = ((name, raw_samples(book) if name == "samples" else derived_table(name, book.index)) for name in names)
    write_run(dataset, book.index, tables)
