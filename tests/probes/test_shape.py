# SPDX-License-Identifier: Apache-2.0
"""One way to write a probe: what a reader has found in one file stands at the same place in all others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBES = sorted(
    path for family in (ROOT / "probes").iterdir() if family.name != "runtime" for path in family.glob("*.c*")
)
# As a visit calls them; a companion's bodies and tables stand where they are needed.
ORDER = ("prepare", "body", "control", "check", "finish", "work")
TABLES = ("roles", "parameters", "metrics")


def fields(source: str) -> dict[str, str]:
    """What `toll_probe` names, field by field."""
    _, _, probe = source.partition("const struct toll_probe toll_probe = {")
    return dict(re.findall(r"^    \.(\w+) =\s+([\w().{}\" ,?]+?),(?:\s|$)", probe, re.MULTILINE))


def complaints(source: str) -> Iterator[str]:
    said = fields(source)
    places = [(role, found.start()) for role in ORDER if (found := _definition(source, said.get(role)))]
    for (role, place), (later, after) in pairwise(places):
        if place > after and {role, later} != {"finish", "work"}:
            yield f"{later} stands before {role}"
    for table in TABLES:
        if said.get(table, table) != table:
            yield f".{table} is {said[table]}, and not a table of that name"
    if re.search(r"\((?:const )?struct toll_(?:metric|parameter|role)\[\]\)", source):
        yield "a table stands inside of another; give it a name before toll_probe"


def _definition(source: str, name: str | None) -> re.Match[str] | None:
    return (
        re.search(rf"^(?:static )?(?:void|enum toll_status) {name}\(.*\) {{$", source, re.MULTILINE) if name else None
    )


@pytest.mark.parametrize("path", PROBES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_probe_has_the_shape_of_all_others(path: Path) -> None:
    assert not list(complaints(path.read_text(encoding="utf-8")))


def test_the_shape_is_seen() -> None:
    probe = (
        "const struct toll_probe toll_probe = {\n    .metrics = metrics,\n    .prepare = lay,\n    .body = load,\n};\n"
    )
    lay, load = "static enum toll_status lay(struct toll_run *r) {\n}\n", "static void load(struct toll_run *r) {\n}\n"
    assert not list(complaints(lay + load + probe))
    assert list(complaints(load + lay + probe)) == ["body stands before prepare"]
    assert list(complaints(lay + load + probe.replace("= metrics", "= rows")))
    assert list(complaints(lay + load + probe + "(struct toll_metric[]){{0}}"))
