# SPDX-License-Identifier: Apache-2.0
"""The verdict of a run in words: its reasons, the withheld findings, and the next step."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tollmeter.experiment.limits import SOME
from tollmeter.judgement.convergence import budget_text
from tollmeter.judgement.verdict import discarded_share, is_contended, is_held_back, unread
from tollmeter.model import Results, RunInfo, Surroundings, first_few
from tollmeter.report.numbers import count, percent
from tollmeter.report.shown import NARROW, narrow
from tollmeter.root import typed
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.store.journal import has_ended, is_written

_MOST_NAMED = 4
"""Highest number of withheld findings that are named."""
LEAST_ASIDE = 0.02
"""Share of discarded samples from which it is printed on the first screen: a smaller share changes nothing."""
UNDER_WAY = "measuring now"
LONGER, LEAST_BUDGET_S = 3, 60
"""Ratio of the advised budget to the duration of a run that was too short, and the least budget that is advised."""
LEAST_SHOWN = 5
"""Fewest numbers of a first screen; a run of fewer numbers lists its rows."""
LACKS_MEMORY = "MiB of memory, and "
"""Words of the runtime's reason if a point needs more memory than there is (probes/runtime/arena.c)."""
UNRECORDED = "which other programs ran was not recorded"
_MEANINGS = {
    "quiet": "no other program had much of its CPUs",
    "busy": "other programs ran on this machine while it was measured, and are in its numbers",
    "unknown": "this system gives no evidence of other programs that ran meanwhile",
    "held back": "the system gave this run less than an ordinary program gets",
    "too short": "most numbers have fewer than three visits and no interval",
    "interrupted": "the run was stopped before its end",
}


WHY_WITHHELD = {
    "busy": "the machine was busy",
    "held back": "the run was throttled or deprioritised",
    "too short": "the run was too short",
    "interrupted": "the run was stopped before its end",
}


class Step(NamedTuple):
    """A next step. command: the command as it is typed; empty if no command helps. when: its condition, or its
    effect."""

    command: str
    when: str = ""


def is_under_way(run: RunInfo) -> bool:
    """Returns whether another process is measuring the run, or has completed the run since the journal was read. An
    interrupted run has the same journal, so the current state of the file decides."""
    folder = Path(run.folder)
    return run.verdict == "interrupted" and (is_written(folder / JOURNAL) or has_ended(folder))


def lacks_surroundings(run: RunInfo) -> bool:
    """Returns whether the run is `unknown` since it has no record of other programs, as of a bundle or a saved bill."""
    return run.verdict == "unknown" and run.surroundings is None


def has_numbers(results: Results) -> bool:
    return any(row.status == "ok" for row in results.index.rows)


def called(run: RunInfo) -> str:
    """Returns the verdict's word, with its qualification."""
    return verdict_word(run) if is_under_way(run) else f"{run.verdict}{_contention(run)}"


def verdict_word(run: RunInfo) -> str:
    """Returns the verdict's word, which `verdict_meaning` explains."""
    return UNDER_WAY if is_under_way(run) else run.verdict


def _contention(run: RunInfo) -> str:
    share = percent(run.contended_share or 0.0)
    return f", but the core was contended {share} of the time" if is_contended(run) else ""


def verdict_sentence(results: Results) -> str:
    """Returns the verdict with its evidence, for example `busy: 73 of 319 points within 3 %`. Empty without a
    number."""
    run = results.index.run
    if run.contradictions:
        first, *others = run.contradictions
        more = f", and {len(others)} more" if others else ""
        return f"{called(run)}: the journal contradicts itself, and rows are withheld. It is not so that {first}{more}"
    if not has_numbers(results) and not is_under_way(run):
        return ""
    share_discarded = discarded_share([row for row in results.index.rows if row.clock != "instructions"])
    of_points = [f"{run.converged} of {run.points} points within {100 * run.precision:g} %"] if run.points else []
    evidence = _of_first_screen(results) or of_points
    evidence += [f"{run.limited} limited by the variance between runs"] if run.limited else []
    if run.contended_share and not is_contended(run):
        evidence.append(f"core contended {percent(run.contended_share)} of the time")
    evidence += [f"{percent(share_discarded)} discarded"] if share_discarded >= LEAST_ASIDE else []
    names = unread(run.surroundings, results.index.rows) if run.surroundings and run.verdict == "unknown" else []
    evidence += [f"{' and '.join(names)} not readable"] if names else []
    evidence += [UNRECORDED] if lacks_surroundings(run) else []
    return f"{called(run)}: {', '.join(evidence) if evidence else _MEANINGS[run.verdict]}"


def _of_first_screen(results: Results) -> list[str]:
    """Returns how many numbers of the first screen are precise, as a list of at most one phrase; empty unless the core
    was contended and most points have not converged. The points of the first screen are measured first."""
    run = results.index.run
    known, of = narrow(results)
    is_beside_others = (run.contended_share or 0.0) > SOME and 2 * run.converged < run.points
    is_worth = is_beside_others and known and of >= LEAST_SHOWN
    return [f"{known} of {of} numbers shown within {percent(NARROW)}"] if is_worth else []


def verdict_meaning(results: Results) -> str:
    """Returns the meaning of the verdict's word, as part of a sentence."""
    run = results.index.run
    if is_under_way(run):
        return "these are the numbers until now, and more come"
    return f"{_MEANINGS[run.verdict]}{_contention(run)}"


def withheld(results: Results) -> str:
    """Returns which findings are withheld, and why; empty if the run carries all."""
    names = results.index.withheld
    if not names or not has_numbers(results):
        return ""
    named = first_few([name.split(".", 1)[-1].replace("_", " ") for name in names], _MOST_NAMED)
    counted = f"{count(len(names), 'finding')} withheld"
    return f"{counted}, since {why_withheld(results)}: {named}."


def why_withheld(results: Results) -> str:
    """Returns why the run does not support a finding that its rows suggest, as part of a sentence."""
    run = results.index.run
    if run.verdict == "held back" and run.surroundings and not is_held_back(run.surroundings):
        return "its system calls were filtered or traced"
    return WHY_WITHHELD.get(results.index.run.verdict, "too few visits were made for an interval")


def no_answer(results: Results) -> str:
    """Returns a sentence on why the run has no answer; empty if it has one, or is in progress."""
    why = "" if is_under_way(results.index.run) else results.index.run.unanswered
    return f"This run did not produce the requested numbers: {why}." if why else ""


def limit(results: Results) -> str:
    """Returns a sentence on the precision that a longer run cannot improve, since runs of this machine differ; empty if
    this holds for less than half of the points, and for a comparison."""
    run, is_comparison = results.index.run, results.index.opposed and results.index.study is None
    if not run.limited or 2 * run.limited < run.points or is_comparison or run.uncompared:
        return ""
    return f"Runs of this machine differ by more than {100 * run.precision:g} %, so a longer run is no more precise."


def next_step(results: Results) -> Step:
    """Returns the next step for this run's largest deficiency."""
    run = results.index.run
    again = results.request.get("anew", typed("run"))
    if run.verdict == "interrupted":
        if is_under_way(run):
            return Step(typed("show", "--follow", run.folder), "shows it while it is measured")
        resume = typed("run", "--resume", run.folder, *results.request.get("places", ()))
        return Step(resume, "measures what is missing")
    is_vain = run.unanswered and run.status == "settled"
    if is_vain or not any(row.status in ("ok", "interrupted") for row in results.index.rows):
        return _instead(results)
    if run.unanswered or run.verdict == "too short":
        return Step(f"{again} --budget {budget_text(round(_longer_s(results)))}")
    steps = {"held back": Step(again, _unthrottled(run.surroundings)), "busy": _beside_others(run, again)}
    return steps.get(run.verdict, Step(typed("serve"), "shows this and other runs in a browser"))


def _beside_others(run: RunInfo, again: str) -> Step:
    """Returns the next step after a disturbed run. again: the command that repeats the run. Programs of this machine
    can be ended; other guests cannot, so an alternative is named."""
    surroundings = run.surroundings
    longer = f" --budget {budget_text(int(run.enough_s))}" if run.enough_s else ""
    if surroundings and (surroundings.company or (surroundings.others or 0.0) > SOME):
        return Step(again, f"when the other programs have ended{f', or with{longer}' if longer else ''}")
    if not longer:
        return Step(again, "with fewer probes, or in a guest with whole cores")
    return Step(f"{again}{longer}", "lets most points converge; fewer probes do too, or a guest with whole cores")


def _unthrottled(surroundings: Surroundings | None) -> str:
    """Returns how to start the next run so that it is not throttled, as part of a sentence."""
    if surroundings is None:
        return ""
    changes = {
        "at the usual priority, without nice or chrt": surroundings.nice > 0 or surroundings.policy != "other",
        "outside the control group that limits its CPU time": surroundings.throttled_s > 0,
        "without a seccomp filter": surroundings.seccomp_filters,
        "without a tracer": surroundings.traced,
    }
    return " and ".join(change for change, is_needed in changes.items() if is_needed)


def _longer_s(results: Results) -> float:
    """Returns the budget in seconds to advise. It exceeds a budget that was spent without enough visits, as on booting
    a guest."""
    run = results.index.run
    if run.enough_s:
        return run.enough_s
    spent_budget_s = float(results.request.get("budget_seconds", 0)) if run.status == "budget" else 0.0
    planned_s = float(results.request.get("planned_s", 0))
    return max(LEAST_BUDGET_S, round(LONGER * run.seconds, -1), 2 * spent_budget_s, planned_s)


def _instead(results: Results) -> Step:
    """Returns the next step where a longer run changes nothing: no row has a number, or all rows have converged."""
    large = [row for row in results.index.rows if LACKS_MEMORY in (row.reason or "")]
    axes = dict.fromkeys(name for row in large for name, value in row.parameters.items() if isinstance(value, int))
    if axes:
        return Step("", f"smaller values of {' and '.join(axes)} fit here; these need a machine with more memory")
    return Step(typed("show", results.index.run.folder, "--all"), "lists for each row why it has no number")
