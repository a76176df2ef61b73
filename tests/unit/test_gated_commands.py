# SPDX-License-Identifier: Apache-2.0
"""`toll gate -- BASE -- NEW`: a second measurement confirms that a command is slower, or it passes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tollmeter.cli.main import main
from tollmeter.library.gating import gated_commands, two_commands
from tollmeter.library.options import TimeOptions
from tollmeter.model import Failure, Opposed
from tollmeter.report.gated import sentences_of_commands

LIMIT = TimeOptions(precision=0.05)


def ratio(value: float, half: float = 0.01, blocks: int = 10) -> Opposed:
    return Opposed(
        metric="time", unit="ns", point="new", against="base", ratio=value, low=value * (1 - half),
        high=value * (1 + half), blocks=blocks, verdict="same",
    )  # fmt: skip


class Measured:
    """What measurements come out, one after the other."""

    def __init__(self, *several: Opposed) -> None:
        self._left = [*several]

    def __call__(self, _texts: Sequence[str], _options: TimeOptions) -> Sequence[Opposed]:
        return [self._left.pop(0)]


@pytest.mark.parametrize(
    ("several", "outcome"),
    [
        ([ratio(1.0)], "within"),
        ([ratio(0.8)], "within"),
        ([ratio(1.045)], "inconclusive"),
        ([ratio(1.2), ratio(1.2)], "slower"),
        ([ratio(1.2), ratio(1.0)], "within"),
        ([ratio(1.2, half=0.2)], "inconclusive"),
    ],
    ids=["same", "faster", "at the limit", "slower twice", "not confirmed", "unsure"],
)
def test_a_command_fails_that_is_slower_twice(several: list[Opposed], outcome: str) -> None:
    decision, measured = gated_commands("base", "new", LIMIT, Measured(*several))
    assert [row.outcome for row in decision.rows] == [outcome]
    assert len(measured) == len(several)
    assert len(sentences_of_commands(decision, measured, "base")) >= 1 + len(several)


def test_a_pair_without_a_ratio_is_no_pass() -> None:
    def measure(_texts: Sequence[str], _options: TimeOptions) -> Sequence[Opposed]:
        return []

    with pytest.raises(Failure) as raised:
        gated_commands("base", "new", LIMIT, measure)
    assert raised.value.exit_code == 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["a b", "--", "c"], ("a b", "c")),
        (["a", "b c", "--", "d"], ("a 'b c'", "d")),
    ],
)
def test_a_side_is_a_line_or_its_words(words: list[str], meant: tuple[str, str]) -> None:
    assert two_commands(words) == meant


@pytest.mark.parametrize("words", [["a"], ["a", "--"], ["--", "a"], ["a", "--", "b", "--", "c"]])
def test_other_than_two_commands_is_refused(words: list[str]) -> None:
    with pytest.raises(Failure) as raised:
        two_commands(words)
    assert raised.value.exit_code == 2


def test_options_of_time_are_for_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--base", "LAST", "--warmup", "2"]) == 2
    assert "not measured again" in capsys.readouterr().err
    assert main(["gate", "--warmup", "-1", "--", "true", "--", "true"]) == 2
    assert "--warmup must be" in capsys.readouterr().err


def test_options_of_runs_are_refused_for_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--base", "LAST", "--", "true", "--", "true"]) == 2
    assert "--base" in capsys.readouterr().err
