# SPDX-License-Identifier: Apache-2.0
"""The first sentence of a run: the answer to its question, its problems, and the results of interleaved comparisons. A
finding is a problem unless its severity is `note`."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tollmeter.model import Probe, Results, Row
from tollmeter.numbers.meanings import native
from tollmeter.numbers.readings import RATES
from tollmeter.report import run_verdict, tables
from tollmeter.report.bills import bill_sentence
from tollmeter.report.numbers import count, in_a_sentence, of_row, ratio_in_words
from tollmeter.report.programs import best_alternative
from tollmeter.report.run_verdict import limit, no_answer
from tollmeter.report.studies import tally_in_words
from tollmeter.report.tables import with_sizes
from tollmeter.studies.choices import ranked_options

FEW_PROBES = 3
"""Highest number of probes whose numbers are in the headline."""


def headline(results: Results) -> str:
    """Returns the answer of a run, or why it has none; and a sentence if a longer run would not be more precise."""
    return " ".join(filter(None, (no_answer(results), _answer(results), limit(results))))


def _answer(results: Results) -> str:
    """Returns the answer: a study's advice and the number of its claims that hold; the difference of one interleaved
    pair; else the ends of the hierarchy and of the toll table, or the numbers of a few probes. Empty without any."""
    study, rankings = results.index.study, ranked_options(results, results.suite) if results.suite is not None else {}
    advice = [best_alternative(ranking)[0] for ranking in list(rankings.values())[:1]]
    of_study = (study.worth, *advice, tally_in_words(study.tally)) if study is not None else ()
    if any(of_study):
        return " ".join(filter(None, of_study))
    if _is_answer(results):
        return f"{pair_sentences(results)[0]}."
    if bills := bill_sentence(results.index.rows, results.probes):
        return bills
    if advice:
        return advice[0]
    known = tables.known_answers(results)
    parts = (tables.upper("; ".join(known.values())), "; ".join(of_few_probes(results, known)))
    return " ".join(f"{part}." for part in parts if part)


def of_few_probes(results: Results, known: Container[str] = ()) -> list[str]:
    """Returns the first metric of each of a few probes in words, except of probes with a metric of a known meaning.
    Empty for a study or a comparison, which have their own answer."""
    is_compared = (
        results.index.opposed or results.index.run.uncompared or (results.suite is not None and results.suite.published)
    )
    native_rows = native(results.index.rows, results.index.machine.architecture) or results.index.rows
    rows = [row for row in native_rows if row.status == "ok" and row.median is not None]
    probes = {row.probe: results.probes[row.probe] for row in rows if row.probe in results.probes}
    if is_compared or len(probes) > FEW_PROBES or len({(row.abi, row.target) for row in rows}) > 1:
        return []
    unknown = (name for name, probe in probes.items() if not any(metric.means in known for metric in probe.metrics))
    return [_of_probe(probes[name], [row for row in rows if row.probe == name]) for name in unknown]


def _of_probe(probe: Probe, rows: list[Row]) -> str:
    """Returns the values of the first metric that has a value, in the words of the metric's summary."""
    metric = next(metric for metric in probe.metrics if any(row.metric == metric.name for row in rows))
    of_metric = sorted((row for row in rows if row.metric == metric.name), key=lambda row: row.median or 0.0)
    ends = dict.fromkeys(in_a_sentence(of_row(row)) for row in (of_metric[0], of_metric[-1]))
    points = f" at {len(of_metric)} points" if len(of_metric) > 1 else ""
    if metric.unit in RATES and of_metric[0].clock == "instructions":  # counted instructions have no rate per second
        of_one = RATES[metric.unit][0].removesuffix("s")
        return f"{rows[0].probe} executes {' to '.join(ends)}{points} for one {of_one}"
    return f"{rows[0].probe} measures {' to '.join(ends)}{points}: {metric.summary}"


# ---- problems -------------------------------------------------------------------------------------------------------

MOST_NAMED = 3
NOT_JUDGED = "problems are not ruled out"


@dataclass(frozen=True)
class Problems:
    """The problems of the first screen. lead: their number, or that none was found, or that none was judged. named:
    claims of the gravest, in the order of the findings. rest: number of other problems, the probes that were examined,
    or why the run could not judge."""

    lead: str
    named: tuple[str, ...]
    rest: str

    def __str__(self) -> str:
        named = f": {'; '.join(self.named)}" if self.named else ""
        return f"{self.lead}{named}{self.rest}"


def problems(results: Results) -> Problems:
    """Returns the problems of a run; `No problem found` only for a run that could have found one. Claims are shortened:
    the findings print their explanations."""
    findings = [finding for finding in tables.findings(results) if finding.severity != "note"]
    limit = _limit(results)
    if not findings:
        rest = f": {limit}" if limit else f" (measured: {', '.join(_families(results))})"
        return Problems(tables.upper(NOT_JUDGED) if limit else "No problem found", (), rest)
    more = f"; and {len(findings) - MOST_NAMED} more" if len(findings) > MOST_NAMED else ""
    rest = f"{more}. Other {NOT_JUDGED}: {limit}" if limit else more
    lead = count(len(findings), "problem")
    return Problems(lead, tuple(finding.claim.partition(": ")[0] for finding in findings[:MOST_NAMED]), rest)


def _families(results: Results) -> list[str]:
    """Returns the families of probes that timed this machine by its own clock, whose rows the rules use."""
    native_rows = native(results.index.rows, results.index.machine.architecture)
    return sorted({row.probe.partition(".")[0] for row in native_rows if row.status == "ok"})


def _limit(results: Results) -> str:
    """Returns why the run may have missed problems; empty if it reports every problem that its rows show."""
    if run_verdict.is_under_way(results.index.run):
        return "the run is still being measured"
    if not run_verdict.has_numbers(results):
        return "no row has a number"
    if not _families(results):
        return "nothing was timed on this machine by its own clock"
    if run_verdict.lacks_surroundings(results.index.run):
        return run_verdict.UNRECORDED
    withheld = len(results.index.withheld)
    is_limited = results.index.run.withheld_problems > 0 or results.index.run.verdict in run_verdict.WHY_WITHHELD
    why = run_verdict.why_withheld(results) if is_limited else ""
    counted = f" ({count(withheld, 'finding')} withheld)" if withheld else ""
    return f"{why}{counted}" if why else ""


# ---- interleaved ----------------------------------------------------------------------------------------------------


def pair_sentences(results: Results) -> list[str]:
    """Returns one sentence for each pair with a ratio, then one for each pair without, in the order of the request. A
    study's pairs are in its claims and tables."""
    if results.index.study is not None:
        return []
    lines = []
    for pair in results.index.opposed:
        verdict = "no difference is resolved" if pair.verdict == "cannot tell" else pair.verdict
        point, against = (with_sizes(name, results) for name in (pair.point, pair.against))
        ratio = ratio_in_words(pair.ratio, pair.low, pair.high, decimals=2)
        lines.append(
            f"{point}, {pair.metric}, against {against}: {verdict}, {ratio}, from {pair.blocks} interleaved layouts"
        )
    for gap in results.index.run.uncompared:
        point, against = (with_sizes(name, results) for name in (gap.point, gap.against))
        lines.append(f"{point} against {against}: not compared, {gap.reason}")
    return lines


def below_the_headline(results: Results) -> list[str]:
    """Returns the sentences of `pair_sentences`; none if the headline has the only one."""
    return [] if _is_answer(results) else pair_sentences(results)


def _is_answer(results: Results) -> bool:
    """Returns whether the run has a single pair, with a ratio."""
    return bool(results.index.opposed) and len(pair_sentences(results)) == 1
