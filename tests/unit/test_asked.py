# SPDX-License-Identifier: Apache-2.0
"""The words of a command line: what they name, and the sentence for those that name nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fake_catalog import catalog
from tollmeter.cli.run import exit_code, gravest
from tollmeter.library.command_words import suite_of_words
from tollmeter.library.options import cpu_numbers, names, seconds
from tollmeter.library.places import report_left_out
from tollmeter.model import Failure, Outcome, Point, Published, Row, Select, Status, Suite
from tollmeter.notices import listen
from tollmeter.store.journal import Session

SUITES = {
    "default": Suite(name="default", question="What?", select=(Select(probe="kernel.*"),)),
    "study": Suite(
        name="study", question="Why?", select=(Select(probe="memory.*"),),
        published=(Published(what="a", figure="1", missing="Not yet."),),
    ),
}  # fmt: skip


def of(*words: str) -> Suite:
    return suite_of_words(words, SUITES, catalog())


def selects(*words: str) -> list[tuple[str, dict[str, object]]]:
    return [(select.probe, dict(select.parameters)) for select in of(*words).select]


def test_no_word_is_the_default_suite() -> None:
    assert of() == SUITES["default"]


def test_a_probe_asks_its_own_question() -> None:
    assert of("memory.latency") == Suite(
        name="memory.latency", question="How long?", select=(Select(probe="memory.latency", narrows=True),)
    )
    assert of("memory.*").select == (Select(probe="memory.*", narrows=True),)


def test_several_names_are_measured_together() -> None:
    both = of("study", "kernel.enter")
    assert both.name == "study+kernel.enter"
    assert both.select == (Select(probe="memory.*"), Select(probe="kernel.enter", narrows=True))
    assert both.published == SUITES["study"].published


def test_parameters_hold_for_the_name_before_them() -> None:
    assert selects("memory.latency", "size=4KiB,8KiB", "pages=huge", "memory.latency", "size=1MiB") == [
        ("memory.latency", {"size": ("4KiB", "8KiB"), "pages": ("huge",)}),
        ("memory.latency", {"size": ("1MiB",)}),
    ]


def test_a_probe_that_a_pattern_matches_and_that_lacks_a_parameter_is_named() -> None:
    said: list[str] = []
    listen(said.append)
    report_left_out(catalog(), of("*", "size=4KiB,8KiB"))
    assert "left out kernel.enter: it does not take size=4KiB,8KiB" in said
    assert not any("memory.latency" in sentence for sentence in said)


def test_a_suite_beside_a_probe_with_parameters_stays_as_it_is() -> None:
    assert selects("study", "memory.latency", "size=64KiB") == [
        ("memory.*", {}),
        ("memory.latency", {"size": ("64KiB",)}),
    ]


def test_parameters_before_any_name_hold_for_all_that_have_them() -> None:
    assert selects("pages=huge", "memory.latency", "size=1", "kernel.enter", "memory.parallel") == [
        ("memory.latency", {"size": ("1",), "pages": ("huge",)}),
        ("kernel.enter", {}),
        ("memory.parallel", {"pages": ("huge",)}),
    ]


def test_of_a_suite_s_glob_those_probes_take_a_parameter_that_have_it() -> None:
    assert selects("study", "size=4096") == [
        ("memory.latency", {"size": ("4096",)}),
        ("memory.parallel", {}),
        ("memory.ping", {}),
    ]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("memory.latency", "size=1", "size=2"), "size=A,B"),
        (("size=1", "memory.latency", "size=2"), "size=A,B"),
        (("size=1", "size=2"), "size=A,B"),
        (("study", "sise=1"), "size"),
        (("pages=hug", "memory.latency"), "huge"),
        (("size=1", "kernel.enter"), "none"),
        (("memory.latency", "size="), "missing"),
        (("memory.latency", "size=1,,2"), "missing"),
    ],
)
def test_a_parameter_that_means_nothing_or_two_things_is_refused(words: tuple[str, ...], named: str) -> None:
    with pytest.raises(Failure, match=named) as caught:
        of(*words)
    assert caught.value.exit_code == 2


def test_a_path_is_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('question = "?"\n[[select]]\nprobe = "kernel.enter"\n')
    assert of(str(path)).name == "mine"


@pytest.mark.parametrize("word", ["kernel", "memory.?", "stdy", "", "../../etc/passwd", "nothing.toml"])
def test_a_word_that_names_nothing_is_refused(word: str) -> None:
    with pytest.raises(Failure) as caught:
        of(word)
    assert caught.value.exit_code == 2


def test_times_and_numbers() -> None:
    assert [seconds(text) for text in ("30", "30s", "500ms", "2m", "1.5 h")] == [30, 30, 0.5, 120, 5400]
    assert [cpu_numbers(text) for text in (None, "3", "0,2", "4-7", "1,3-4")] == [
        (),
        (3,),
        (0, 2),
        (4, 5, 6, 7),
        (1, 3, 4),
    ]
    assert [names(text) for text in (None, "a", "a, b")] == [(), ("a",), ("a", "b")]


@pytest.mark.parametrize("text", ["", ",", "a,", "a,,b"])
def test_a_name_that_is_missing_is_refused(text: str) -> None:
    with pytest.raises(Failure) as caught:
        names(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["", "s", "-3", "0", "1d", "1 2", "1e9", "٣"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Failure):
        seconds(text)


@pytest.mark.parametrize("text", [",", "a", "1-", "-1", "1,,2", "99999999"])
def test_what_is_no_cpu_is_refused(text: str) -> None:
    with pytest.raises(Failure):
        cpu_numbers(text)


def told(point: int, status: Status) -> Outcome:
    place = Point(probe="a.b", abi="x", target="local", parameters=(("n", point),))
    return Outcome(visit=0, round=0, point=place, status=status)


@pytest.mark.parametrize(
    ("statuses", "session", "code"),
    [
        ([(1, "ok")], "settled", 0),
        ([(1, "ok"), (2, "unsupported"), (3, "interrupted")], "budget", 0),
        ([(1, "unsupported")], "settled", 6),
        ([], "settled", 6),
        ([(1, "ok"), (2, "failed")], "settled", 1),
        ([(1, "ok"), (1, "wrong_answer")], "settled", 1),
        ([(1, "timeout")], "settled", 1),
        ([(1, "ok"), (2, "infrastructure")], "settled", 5),
        ([(1, "infrastructure"), (1, "ok")], "settled", 0),
        ([(1, "ok"), (2, "failed"), (3, "infrastructure")], "settled", 5),
        ([(1, "ok"), (2, "failed")], "interrupted", 130),
    ],
)
def test_the_gravest_decides_the_exit_code(statuses: list[tuple[int, Status]], session: str, code: int) -> None:
    outcomes = [told(point, status) for point, status in statuses]
    rows = [row_of(one, "ok") for one in outcomes if one.status == "ok"]
    assert exit_code(outcomes, rows, Session(session, 1.0, None)) == code


def row_of(one: Outcome, status: Status) -> Row:
    return Row(
        probe="a.b", revision=1, abi="x", target="local", clock="hardware", parameters=one.point.values(), metric="m",
        unit="ns", better="less", status=status,
    )  # fmt: skip


def test_rows_without_a_number_are_nothing_that_ran() -> None:
    outcomes = [told(1, "ok"), told(2, "ok")]
    rows = [row_of(one, "unstable") for one in outcomes]
    assert exit_code(outcomes, rows, Session("settled", 1.0, None)) == 6


def test_a_lost_report_is_graver_than_a_failed_probe() -> None:
    assert gravest(1, 5) == 5
    assert gravest(5, 1, 130) == 130
    assert gravest(6, 1) == 1
    assert gravest(0, 6) == 6
