# SPDX-License-Identifier: Apache-2.0
"""What the self-test takes for caught."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from support.builders import row
from tollmeter.conduct import Stopping
from tollmeter.library import selftest
from tollmeter.library.lies import IN_PROBES
from tollmeter.model import Row, Status


@pytest.mark.parametrize(("withheld", "caught"), [(("machine.other_programs_work",), True), ((), False)])
def test_contention_is_detected_in_a_run_too_short_for_a_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, withheld: tuple[str, ...], caught: bool
) -> None:
    """On a machine that is busy already the run has few visits, and holds its findings back."""
    results = example_runs.small()
    results = example_runs.with_index(results, withheld=withheld)
    monkeypatch.setattr(selftest, "_neighbour", contextlib.nullcontext)
    monkeypatch.setattr(selftest, "_measured", lambda *_, **__: results)
    found = selftest._beside_a_neighbour(tmp_path, tmp_path, Stopping())
    assert (found.outcome == selftest.CAUGHT) is caught


def test_a_lie_is_caught_only_for_the_reason_that_it_was_planted_for() -> None:
    lie = next(one for one in IN_PROBES if one.name == "wrong answer")

    def outcome(*rows: Row) -> str:
        return selftest.detection(lie, example_runs.with_index(example_runs.small(), rows=rows)).outcome

    def without_number(status: Status, reason: str) -> Row:
        return msgspec.structs.replace(row(None, of=lie.probe, status=status), reason=reason)

    said = "the loop stopped before its counter was zero"
    assert outcome(without_number("wrong_answer", said)) == selftest.CAUGHT
    assert outcome(without_number("failed", "exit status 1")) == selftest.OTHERWISE
    assert outcome(row(1.0, of=lie.probe)) == selftest.PASSED
    assert outcome(without_number("infrastructure", "too many open files")) == selftest.NOT_MEASURED
    assert outcome(row(1.0, of="another.probe")) == selftest.NOT_MEASURED


def test_every_lie_expects_a_reason_and_has_a_name_of_its_own() -> None:
    assert len({lie.name for lie in IN_PROBES}) == len(IN_PROBES) >= 19
    assert not any(lie.is_expected("") for lie in IN_PROBES)
