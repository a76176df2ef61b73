# SPDX-License-Identifier: Apache-2.0
"""What users see of example runs, held to approved texts: `make snapshots` renews them, and a review reads their diff.

A variation of a run is a line of a table here, and in its snapshot what differs from the run's own text."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support import example_runs
from support.example_runs import small, with_entry, with_index, with_rows, with_run
from support.recordings import copied
from support.rendered import printed, words_of_page
from support.snapshots import approve, approve_variations
from tollmeter.cli.main import main
from tollmeter.library.derive import open_run
from tollmeter.model import Results, Select, State, StateName, Suite, Surroundings
from tollmeter.numbers.rows import row_key
from tollmeter.report import markdown, page
from tollmeter.report.run_verdict import verdict_meaning

SCREEN_AND_A_HALF = 36

# ---- a recorded run, in every format -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one quiet machine, made less quiet by nothing."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("01", "21"):
        copied(f"repeated/{name}", folder / name, calm=True)
    return folder


FORMATS = {
    "terminal": "show 01",
    "terminal-all": "show 01 --all",
    "markdown": "show 01 --format md",
    "json": "show 01 --format json",
    "lmbench": "show 01 --format lmbench",
    "compare": "compare 01 21 --all",
    "compare-markdown": "compare 01 21 --format md",
    "gate": "gate --base 01 --new 21",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_recorded_run_in_each_format(
    runs: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([str(runs / word) if word.isdecimal() else word for word in FORMATS[name].split()]) == 0
    text = capsys.readouterr().out
    approve(f"recorded-{name}", excerpt(text) if name == "json" else text, runs)


def excerpt(text: str) -> str:
    """The first item of each list, and numbers to four digits: the others are alike, and last digits are the CPU's."""

    def shortened(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: shortened(value) for key, value in node.items()}
        if isinstance(node, list):
            return [shortened(one) for one in node[:1]]
        return float(f"{node:.4g}") if isinstance(node, float) else node

    return json.dumps(shortened(json.loads(text)), indent=1)


def test_the_page_of_a_recorded_run(runs: Path) -> None:
    text, of_machine, _ = words_of_page(page.render(open_run(runs / "01"))).partition("Machine and run")
    assert of_machine
    approve("recorded-page", text, runs)


# ---- a guest of two CPUs, and what differs where its run was another ---------------------------------------------


def seen(results: Results, *, whole: bool = False) -> str:
    """What a terminal shows, and the page's sentence about the verdict."""
    return f"{printed(results, 100, whole=whole)}\n{verdict_meaning(results)}"


def test_the_screens_of_a_guest() -> None:
    approve("guest-terminal", printed(small()))
    approve("guest-tables", printed(small(), 100, whole=True).partition("\nRows ")[0])
    approve("guest-narrow", printed(small(), 60))


def levels(names: tuple[str, ...] = ("L1d", "L2", "L3", "memory"), **changed: Any) -> Results:
    """The guest's run with other values in the levels of these names."""
    found = small().index.hierarchy
    return with_index(small(), hierarchy=tuple(
        msgspec.structs.replace(level, **changed) if level.level in names else level for level in found
    ))  # fmt: skip


def without_level(*names: str) -> Results:
    return with_index(small(), hierarchy=tuple(one for one in small().index.hierarchy if one.level not in names))


def on_metal(results: Results) -> Results:
    return with_index(results, machine=msgspec.structs.replace(results.index.machine, hypervisor=None))


def with_tolls(**changes: Any) -> Results:
    tolls = small().index.tolls
    return with_index(small(), tolls=tuple(msgspec.structs.replace(toll, **changes) for toll in tolls))


def in_two_states(results: Results, *names: StateName) -> Results:
    """The run whose system call costs 9 and 10 ns, each in its own state of the core."""
    states = tuple(State(state=name, share=0.5, median=ns, low=0.9 * ns, high=1.1 * ns)
                   for name, ns in zip(names, (9.0, 10.0), strict=True))  # fmt: skip
    tolls = tuple(msgspec.structs.replace(toll, states=states) if toll.probe == "kernel.enter_syscall" else toll
                  for toll in results.index.tolls)  # fmt: skip
    return with_index(results, tolls=tolls)


def refused(reason: str, every: int = 1) -> Results:
    """The run of which every row, or every second, has no number."""
    gap = {"status": "unsupported", "reason": reason, "median": None, "parameters": {"arcs": 9}}
    rows = [msgspec.structs.replace(row, **({} if at % every else gap)) for at, row in enumerate(small().index.rows)]
    return with_rows(small(), rows)


def asked(results: Results, **request: Any) -> Results:
    return msgspec.structs.replace(results, request={"anew": "./toll run x32-2013 --abi ia32", **request})


BUSY = {"verdict": "busy", "points": 300, "converged": 2, "contended_share": 0.83, "enough_s": 300.0}
ALONE = Surroundings(others=0.01)
HALF = {"points": 10, "converged": 6}
SHORT = {"verdict": "too short", "unanswered": "x", "status": "budget"}
KERNEL = Suite(name="kernel", question="?", select=(Select(probe="kernel.switch", group="scheduling"),
                                                     Select(probe="kernel.*", group="the rest")))  # fmt: skip
MITIGATED = {"vulnerability_spectre_v2": "Mitigation: Retpolines", "vulnerability_mds": "Not affected"}
LONG = tuple(msgspec.structs.replace(small().index.findings[0], name=f"memory.rule_{n}", severity="note",
                                    claim="a long claim " * 8)
             for n in range(9))  # fmt: skip
OTHER_CACHE = msgspec.structs.replace(small().index.hierarchy[2], level="L4", os_size_bytes=None, not_apart_from="")


LAST = msgspec.structs.replace(OTHER_CACHE, level="L3 or memory")


@cache
def first_screens() -> dict[str, Results]:
    return {
        "busy: the verdict stands below the answer": with_run(small(), verdict="busy", contended_share=0.51, **HALF),
        "quiet on a core that was shared for 43 % of the time": with_run(small(), contended_share=0.43, **HALF),
        "quiet on a core that was shared for 20 % of the time": with_run(small(), contended_share=0.2, **HALF),
        "quiet on a core of unknown state": with_run(small(), contended_share=None, **HALF),
        "limited by the variance between runs at some points": with_run(small(), **BUSY, limited=5),
        "limited by the variance between runs at all points": with_run(
            small(), verdict="busy", points=10, converged=4, limited=6
        ),
        "nothing found, and the surroundings were recorded": with_run(
            with_index(small(), findings=()), surroundings=Surroundings(others=0.0)
        ),
        "nothing found, and the surroundings were not recorded": with_run(
            with_index(small(), findings=()), verdict="unknown", surroundings=None
        ),
        "beside a busy sibling": with_run(small(), **BUSY, surroundings=ALONE),
        "beside a busy sibling, tolls of two visits": with_run(with_tolls(visits=2), **BUSY, surroundings=ALONE),
        "beside other programs": with_run(small(), **BUSY, surroundings=Surroundings(others=0.5)),
        "beside a busy sibling, no budget would be enough": with_run(
            small(), **{**BUSY, "contended_share": 0.2, "enough_s": None}, surroundings=ALONE
        ),
        "another command was typed": asked(with_run(small(), verdict="busy")),
        "a budget of 60 s was spent in vain": asked(with_run(small(), **SHORT, seconds=14), budget_seconds=60),
        "the plan named a budget": asked(with_run(small(), **SHORT, seconds=26), budget_seconds=30, planned_s=180),
        "no row has a number": with_run(refused("no peer"), **{**SHORT, "unanswered": "no row has a number"}),
        "not enough memory for any row": with_run(refused("needs 9 MiB of memory, and 3 are left to take"), **SHORT),
        "every second row has no number": refused("this CPU has no avx512f", 2),
        "all has converged, and the study has no answer": with_run(small(), unanswered="y", status="settled"),
        "a system call of 4 samples": with_entry(small(), visits=2, samples=4),
        "a system call known badly": with_entry(small(), low=114.0, median=130.0, high=187.0),
        "a system call without a number": with_entry(small(), status="interrupted", reason="no time", median=None),
        "a system call in two states of the core": in_two_states(small(), "uncontended", "contended"),
        "nine long findings": with_index(small(), findings=LONG),
        "levels of 6 samples": levels(
            few_samples=6, latency_low=None, latency_high=None, read_low=None, read_high=None, size_low=None,
            size_high=None,
        ),
        "a level that was not resolved from the next": levels(
            ("L2",), size_bytes=None, size_low=None, size_high=None, not_apart_from="L3", not_apart_why="one step"
        ),
        "no levels": with_index(small(), hierarchy=()),
        "no L3": without_level("L3"),
        "no L3 and no memory": without_level("L3", "memory"),
        "a level of unknown origin": with_index(
            small(), hierarchy=(*small().index.hierarchy[:3], OTHER_CACHE, small().index.hierarchy[3])
        ),
        "a last level that may be memory": with_index(
            small(), hierarchy=(*small().index.hierarchy[:2], LAST)
        ),
        "on metal the size of L3 disagrees": on_metal(small()),
        "on metal a level of unknown origin": on_metal(
            with_index(small(), hierarchy=(*small().index.hierarchy[:3], OTHER_CACHE, small().index.hierarchy[3]))
        ),
        "on metal a size of few samples does not disagree": on_metal(levels(few_samples=8)),
        "findings in another order": with_index(small(), findings=small().index.findings[::-1]),
        "a finding withheld": with_index(small(), withheld=("memory.cache_disagrees",)),
        "a suite with groups": msgspec.structs.replace(small(), suite=KERNEL),
        "a suite with groups on a CPU with mitigations": msgspec.structs.replace(
            with_index(small(), machine=msgspec.structs.replace(small().index.machine, facts=MITIGATED)), suite=KERNEL
        ),
    }  # fmt: skip


def test_first_screens_that_differ() -> None:
    approve_variations("guest-variations", seen(small()), {title: seen(of) for title, of in first_screens().items()})


@pytest.mark.parametrize("title", ["busy: the verdict stands below the answer", "nine long findings"])
def test_a_first_screen_is_a_screen_and_a_half(title: str) -> None:
    assert len(printed(first_screens()[title]).splitlines()) <= SCREEN_AND_A_HALF


@pytest.mark.parametrize("width", range(50, 101))
def test_no_line_is_too_wide_and_no_number_parted_from_its_unit(width: int) -> None:
    for results in (small(), example_runs.failed(), example_runs.many_cpus(), example_runs.empty()):
        text = printed(results, width)
        assert max(map(len, text.splitlines())) <= width
        assert not re.search(r"\d\n\s*(s|ns|µs|GiB|GHz|%|points)\b", text)


def test_no_whole_table_is_wider_than_its_terminal_or_a_hundred() -> None:
    for width in (80, 100, 200):
        for results in (example_runs.healthy(("x86_64",)), example_runs.failed()):
            assert max(map(len, printed(results, width, whole=True).splitlines())) <= min(width, 100)


@cache
def whole_screens() -> dict[str, Results]:
    lost = {"read_bytes_per_second": None, "parallelism": None, "read_missing": "the budget ended",
            "parallelism_missing": "no memory"}  # fmt: skip
    probes = ("kernel.fault_segv", "memory.ping_pong", "datamodel.virtual_call")
    failed = {row_key(row): row for row in example_runs.failed().index.rows if row.probe in probes}
    return {
        "no read bandwidth of L2 and L3": levels(("L2", "L3"), **lost),
        "rows without a number": with_rows(small(), [failed.get(row_key(row), row) for row in small().index.rows]),
        "no row has a number": first_screens()["no row has a number"],
        "a level that was not resolved from the next": first_screens()["a level that was not resolved from the next"],
        "a suite with groups": first_screens()["a suite with groups on a CPU with mitigations"],
    }


@pytest.mark.parametrize("form", ["terminal", "markdown", "page"])
def test_whole_screens_that_differ(form: str) -> None:
    def shown(results: Results) -> str:
        if form == "terminal":
            return printed(results, 100, whole=True)
        if form == "markdown":
            return markdown.render(results)
        return words_of_page(page.render(results)).rpartition("All numbers, by family")[0]

    texts = {title: shown(of) for title, of in whole_screens().items()}
    approve_variations(f"guest-{form}-variations", shown(small()), texts)
