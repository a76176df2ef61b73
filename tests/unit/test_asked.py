# SPDX-License-Identifier: Apache-2.0
"""The words of a command line: what they name, and the sentence for those that name nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from machines import catalog
from tollmeter.cli.answer import exit_code, gravest
from tollmeter.library.asked import Asked, asked, names, numbers, seconds
from tollmeter.model import Failure, Outcome, Point, Published, Row, Select, Status, Suite
from tollmeter.store.journal import Session

SUITES = {
    "default": Suite(name="default", question="What?", select=(Select(probe="kernel.*"),)),
    "study": Suite(
        name="study", question="Why?", select=(Select(probe="memory.*"),),
        published=(Published(what="a", figure="1", missing="Not yet."),),
    ),
}  # fmt: skip


def of(*words: str) -> Asked:
    return asked(words, SUITES, catalog())


def test_no_word_is_the_default_suite() -> None:
    assert of() == Asked(SUITES["default"], {})
    assert of("size=4KiB").suite == SUITES["default"]


def test_a_probe_asks_its_own_question() -> None:
    assert of("memory.latency").suite == Suite(
        name="memory.latency", question="How long?", select=(Select(probe="memory.latency"),)
    )
    assert of("memory.*").suite.select == (Select(probe="memory.*"),)


def test_several_names_are_measured_together() -> None:
    both = of("study", "kernel.enter").suite
    assert both.name == "study+kernel.enter"
    assert both.select == (Select(probe="memory.*"), Select(probe="kernel.enter"))
    assert both.published == SUITES["study"].published


def test_settings_are_lists_of_what_was_written() -> None:
    assert of("size=4KiB,8KiB", "pages=huge", "size=1").settings == {"size": ("1",), "pages": ("huge",)}


def test_a_path_is_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('question = "?"\n[[select]]\nprobe = "kernel.enter"\n')
    assert of(str(path)).suite.name == "mine"


@pytest.mark.parametrize("word", ["kernel", "memory.?", "stdy", "", "../../etc/passwd", "nothing.toml"])
def test_a_word_that_names_nothing_is_refused(word: str) -> None:
    with pytest.raises(Failure) as caught:
        of(word)
    assert caught.value.exit_code == 2


def test_times_and_numbers() -> None:
    assert [seconds(text) for text in ("30", "30s", "500ms", "2m", "1.5 h")] == [30, 30, 0.5, 120, 5400]
    assert [numbers(text) for text in (None, "3", "0,2", "4-7", "1,3-4")] == [(), (3,), (0, 2), (4, 5, 6, 7), (1, 3, 4)]
    assert [names(text) for text in (None, "a", "a, b,")] == [(), ("a",), ("a", "b")]


@pytest.mark.parametrize("text", ["", "s", "-3", "0", "1d", "1 2", "1e9", "٣"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Failure):
        seconds(text)


@pytest.mark.parametrize("text", [",", "a", "1-", "-1", "1,,2", "99999999"])
def test_what_is_no_cpu_is_refused(text: str) -> None:
    with pytest.raises(Failure):
        numbers(text)


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
