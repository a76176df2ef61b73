# SPDX-License-Identifier: Apache-2.0
"""The first sentence of each study agrees with the table of verdicts, the programs and the ways out below it, whatever
was measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import exp
from random import Random

import msgspec
import pytest

from support.builders import metric, probe, row
from support.example_runs import empty, with_index, with_rows
from tollmeter.library.places import suites
from tollmeter.model import Probe, Results, Row, RowOf, Suite
from tollmeter.report.blocks import Table
from tollmeter.report.headline import headline
from tollmeter.report.numbers import MINUS
from tollmeter.report.programs import alternatives_table, program_tables
from tollmeter.report.studies import claim_blocks
from tollmeter.studies.choices import ranked_options
from tollmeter.studies.study import study

RUNS = 100
"""A contradiction may need two rare states of rows at once."""
STUDIES = {name: suite for name, suite in suites().items() if suite.published}
WORDS = {"holds": "hold", "same direction": "have the same direction only", "does not hold": "do not hold",
         "cannot be judged here": "cannot be judged here"}  # fmt: skip


def asked(suite: Suite) -> Iterator[RowOf]:
    """Every row that a claim, a way out or a program is about, by the hardware's clock."""
    for claim in suite.published:
        yield from (each for each in (claim.row, claim.over, *claim.order) if each is not None)
    yield from (option.row for option in suite.option)
    for program in suite.program:
        for abi in ("x86_64", "x32", "ia32"):
            for name in ("first", "memory"):
                yield RowOf(probe=program.probe, metric=name, abi=abi, parameters=program.parameters)


def probes_of(suite: Suite) -> dict[str, Probe]:
    """Each with the metrics that are asked of it; of a program the first is its time."""
    names: dict[str, dict[str, None]] = {program.probe: {"first": None} for program in suite.program}
    for wanted in asked(suite):
        names.setdefault(wanted.probe or wanted.means or "", {})[wanted.metric or "first"] = None
    return {
        name: probe(*(metric(each, means="resident-peak" if each == "memory" else name if name in MEANS else None)
                      for each in metrics), name=name)
        for name, metrics in names.items()
    }  # fmt: skip


MEANS = {claim.row.means for suite in STUDIES.values() for claim in suite.published if claim.row and claim.row.means}


def resampled(suite: Suite, probes: dict[str, Probe], random: Random) -> Results:
    """A machine whose every number is random, known well or badly, from few visits or many, in any state."""
    rows: dict[str, Row] = {}
    for wanted in asked(suite):
        name = wanted.probe or wanted.means or ""
        abi = wanted.abi if wanted.abi not in (None, "native") else "x86_64"
        made = row(
            100 * exp(random.gauss(0, 0.3)), random.choice((0.002, 0.02, 0.2)), of=name, name=wanted.metric or "first",
            abi=abi, parameters=wanted.parameters,
            state=random.choice(("uncontended", "uncontended", "all")),
        )  # fmt: skip
        made = msgspec.structs.replace(made, visits=random.choice((2, 9)))
        rows[f"{name} {made.metric} {abi} {sorted(made.parameters.items())}"] = made
    results = msgspec.structs.replace(with_rows(empty(), [*rows.values()]), suite=suite, probes=probes)
    machine = msgspec.structs.replace(results.index.machine, architecture="x86_64")
    results = with_index(results, machine=machine)
    return with_index(results, study=study(results))


@pytest.mark.parametrize("name", STUDIES)
def test_the_first_sentence_agrees_with_the_tables_in_a_hundred_runs(name: str) -> None:
    suite, random, seen = STUDIES[name], Random(f"first sentence of {name}"), Counter[str]()
    probes = probes_of(suite)
    for _ in range(RUNS):
        results = resampled(suite, probes, random)
        said = headline(results)
        verdicts = next(block for block in claim_blocks(results, suite) if isinstance(block, Table)).rows
        counts = Counter(re.sub(r", [\d.,]+ times as large", "", str(line.cells[3])) for line in verdicts)
        for verdict, words in WORDS.items():
            told = re.search(rf"(\d+) ({words}|{words.replace('have', 'has').replace('do ', 'does ')}|{verdict})", said)
            assert (int(told[1]) if told else 0) == counts[verdict], (said, counts)
        seen.update({**counts, **check_ways(said, results, suite), **check_programs(said, results)})
    assert seen["cannot be judged here"] and (seen["does not hold"] or "own-vector" in probes)
    assert seen["way named"] or not suite.option
    assert seen["program named"] or not suite.worth


def check_ways(said: str, results: Results, suite: Suite) -> dict[str, int]:
    """A way out is best only if the table says that it gains, with its interval."""
    best = re.search(r"Best here: (.*?), ([\d.,]+) × the throughput", said)
    if not best or not suite.option:
        return {}
    ranking = next(iter(ranked_options(results, suite).values()))
    gains = {str(line.cells[0]): str(line.cells[2]) for line in alternatives_table(ranking).rows}
    assert not gains[best[1]].startswith("~")
    ends = [float(end.replace(",", "")) for end in gains[best[1]].split(" ×")[0].split(" to ")]
    assert ends[0] * 0.95 <= float(best[2].replace(",", "")) <= ends[-1] * 1.05
    return {"way named": 1}


def check_programs(said: str, results: Results) -> dict[str, int]:
    """What an ABI is worth it for takes less time in the table, and what it is not worth it for takes more; neither is
    a guess."""
    told = re.search(r"is worth it here,? for (.*?)(?:, and is not for (.*?))?\. It ", said)
    if not told:
        return {}
    time = next(table for table in program_tables(results) if table.title.startswith("Time"))
    column = [column.name for column in time.columns].index("x32")
    changes = {str(line.cells[0]): str(line.cells[column]) for line in time.rows}
    for names, sign in ((told[1], MINUS), (told[2], "+")):
        assert all(changes[name].startswith(sign) for name in (names.split("; ") if names else ())), (said, changes)
    return {"program named": 1}
