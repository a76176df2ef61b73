# SPDX-License-Identifier: Apache-2.0
"""`toll fleet report`: which nodes of a fleet differ from their peers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tollmeter.judgement.fleet import FleetRow, HardwareModel, Judged, judged
from tollmeter.library import places
from tollmeter.library.derive import add_to_dataset
from tollmeter.model import Failure
from tollmeter.notices import notify
from tollmeter.store.fleet import Fleet, is_dataset, read_fleet

NOTHING = 6


def report(names: Sequence[str]) -> list[Judged]:
    """One answer for each hardware model, the largest first. names: one dataset, or runs; unreadable ones are left out.
    Raises Failure: 2 for neither, 5 where nothing is readable, 6 where no row can be judged."""
    if len(names) == 1 and is_dataset(Path(names[0])):
        return _judged(read_fleet(Path(names[0])))
    with tempfile.TemporaryDirectory() as scratch:
        failures = [(name, failure) for name in names if (failure := _added(name, Path(scratch)))]
        none = len(failures) == len(names)
        for name, failure in failures[none:]:
            notify(f"{name} is left out: {failure.sentence}")
        if none:
            raise failures[0][1]
        return _judged(read_fleet(Path(scratch)))


def _added(name: str, dataset: Path) -> Failure | None:
    try:
        add_to_dataset(places.find_run(name), dataset, ("rows", "machines"))
    except Failure as failure:
        return failure
    return None


def _judged(fleet: Fleet) -> list[Judged]:
    if not len(fleet.rows):
        raise Failure("no row has an interval of enough visits on any machine", NOTHING)
    rows = [_row(cells) for cells in fleet.rows]
    of_models: dict[str, list[int]] = {}
    for column, (_, model) in enumerate(fleet.machines):
        of_models.setdefault(model, []).append(column)
    effects = []
    for model, columns in sorted(of_models.items(), key=lambda one: -len(one[1])):
        some = slice(None) if len(of_models) == 1 else columns
        names = [fleet.machines[column][0] for column in columns]
        effects.append(judged(HardwareModel(model, names, rows, fleet.values[:, some], fleet.halves[:, some])))
    if all(effect.spread.nodes.max() < 2 for effect in effects):
        raise Failure("no two machines of one CPU, kernel and caches have a row in common", NOTHING)
    return effects


def _row(cells: dict[str, object]) -> FleetRow:
    """A dataset may come from elsewhere."""
    try:
        parameters = json.loads(str(cells["parameters"]))
    except ValueError:
        parameters = {}
    words = {name: str(cells[name] or "") for name in ("probe", "metric", "abi", "target", "unit", "better", "state")}
    return FleetRow(parameters=parameters if isinstance(parameters, dict) else {}, **words)
