# SPDX-License-Identifier: Apache-2.0
"""A machine's fitness to be measured: in words, as JSON, as Prometheus' text format, and as a shell script that makes
or takes back the changes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from tollmeter.model import DISTORTING, RANKS, Finding, Rank, Results, json_document, printable
from tollmeter.numbers.meanings import native, with_meaning
from tollmeter.report import run_verdict, tables
from tollmeter.report.health import gauge, row_gauges
from tollmeter.report.numbers import count, in_a_sentence, of_row
from tollmeter.report.text_layout import WIDEST, print_line, wrapped
from tollmeter.root import typed

HEADS: dict[Rank, str] = {
    "prevents": "Prevents measuring",
    "distorts": "Distorts measuring",
    "costs": "Costs performance",
    "information": "Information",
}
_SHOWN = {
    "entry": "system call", "clock-read": "clock read", "wake-of-idle": "wake-up of an idle CPU",
    "wake-of-spinning": "wake-up of a spinning CPU", "timer-late": "timer late by",
    "gain-of-huge-pages": "huge pages save a load",
}  # fmt: skip
"""Names of the values by which machines are compared, by meaning; the first row of each meaning is used."""
_FEW_UNMEASURED = 4
_INDENT, _HANGING = 5, 7


class FileChange(NamedTuple):
    """One file of the machine, with its present value and the value that the remedy sets."""

    path: str
    found: str
    wanted: str


Changed = Mapping[FileChange, Finding]
"""Changes of files, each with the finding that requires it."""


def _headline(found: Sequence[Finding], unjudged: Sequence[str]) -> str:
    """Returns a sentence on whether this machine is fit to be measured. unjudged: why conditions were not judged."""
    ranks = Counter(finding.rank for finding in found)
    parts = [f"{count(ranks[rank], 'condition')} {_verb(rank, ranks[rank])}" for rank in DISTORTING if ranks[rank]]
    if ranks["costs"]:
        parts.append(f"{count(ranks['costs'], 'condition')} {_verb('costs', ranks['costs'])} performance")
    listed = f": {'; '.join(parts)}" if parts else ""
    if any(ranks[rank] for rank in DISTORTING):
        return f"Not fit to be measured{listed}."
    return f"Not judged{listed}: {unjudged[0]}." if unjudged else f"Fit to be measured{listed}."


def _verb(rank: Rank, number: int) -> str:
    words = {"prevents": "measuring", "distorts": "what is measured"}.get(rank, "")
    verb = rank if number == 1 else rank.removesuffix("s")
    return f"{verb} {words}".strip()


def print_findings(
    results: Results, found: Sequence[Finding], unjudged: Sequence[str], changed: Changed, console: Console
) -> None:
    """Prints the answer, then each finding by rank: its claim, its evidence, and its remedy."""
    wrapped(console, _headline(found, unjudged), style="bold", hanging=2)
    numbered = list(enumerate(found, 1))
    for rank in RANKS:
        of_rank = [(number, finding) for number, finding in numbered if finding.rank == rank]
        if of_rank:
            console.print()
            wrapped(console, HEADS[rank], style="bold")
        for number, finding in of_rank:
            _print_finding(number, finding, results, changed, console)
    console.print()
    not_judged = unjudged[0 if _state(found, unjudged) == 0 else 1 :]
    for line in not_judged[:_FEW_UNMEASURED]:
        wrapped(console, f"Not judged: {line}.", hanging=2)
    if len(not_judged) > _FEW_UNMEASURED:
        wrapped(console, f"Not judged: {len(not_judged) - _FEW_UNMEASURED} more.")
    held = run_verdict.withheld(results)
    if held and not results.index.run.withheld_problems:  # problems among them are named above
        wrapped(console, held, hanging=2, style="dim")
    if measured := _summary(results):
        wrapped(console, measured, hanging=2)
    folder = results.index.run.folder
    print_line(console, Text(f"Run   {printable(folder)}"))
    if changed:
        print_line(console, Text(f"Next  {printable(typed('doctor', '--run', folder, '--script'))}"))
        wrapped(console, "prints these changes as a shell script, which also takes them back", first=6, hanging=6)


def _summary(results: Results) -> str:
    """Returns the core clock and the values of _SHOWN in one line; empty if there are none."""
    native_rows = [
        row for row in native(results.index.rows, results.index.machine.architecture) if (row.low or 0.0) > 0
    ]
    rows = [with_meaning(native_rows, results.probes, means)[:1] for means in _SHOWN]
    clock_hz = results.index.machine.core_clock_hz
    parts = [f"core clock {clock_hz / 1e9:.2f} GHz"] if clock_hz else []
    parts += [
        f"{words} {in_a_sentence(of_row(row[0]))}" for words, row in zip(_SHOWN.values(), rows, strict=True) if row
    ]
    return f"Measured: {', '.join(parts)}." if parts else ""


def _print_finding(number: int, finding: Finding, results: Results, changed: Changed, console: Console) -> None:
    wrapped(console, f"{number:>3}. {finding.claim}", hanging=_INDENT)
    rests_on = "; ".join(tables.evidence(item, results) for item in finding.evidence)
    how = "read, and not measured" if finding.proof == "read" else finding.proof
    wrapped(console, f"{how}: {rests_on}", first=_INDENT, hanging=_HANGING, style="dim")
    if finding.remedy:
        wrapped(console, f"mend: {finding.remedy}", first=_INDENT, hanging=_HANGING)
    for (path, was, wanted), asking in changed.items():
        if asking == finding:
            words = f"echo {shlex.quote(wanted)} > {shlex.quote(path)}   (it is {printable(was)})"
            print_line(console, Text(f"{'':{_INDENT}}{words}"))


def as_text(results: Results, found: Sequence[Finding], unjudged: Sequence[str], changed: Changed) -> str:
    """Returns what `print_findings` prints, as plain text, to be written to a file."""
    console = Console(file=StringIO(), width=WIDEST, highlight=False)
    print_findings(results, found, unjudged, changed, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


# ---- for programs ----------------------------------------------------------------------------------------------------


def as_json(results: Results, found: Sequence[Finding], unjudged: Sequence[str], changed: Changed) -> bytes:
    answer = {
        "fit": _state(found, unjudged) == 1, "sentence": _headline(found, unjudged), "findings": found,
        "unjudged": unjudged, "withheld": results.index.withheld, "verdict": results.index.run.verdict,
        "run": results.index.run.folder,
        "host": results.index.machine.host,
        "changes": [{"path": path, "found": was, "wanted": wanted, "finding": asking.name}
                    for (path, was, wanted), asking in changed.items()],
    }  # fmt: skip
    return json_document(answer)


def _state(found: Sequence[Finding], unjudged: Sequence[str]) -> int:
    return 0 if any(finding.rank in DISTORTING for finding in found) else -1 if unjudged else 1


def prometheus(results: Results, found: Sequence[Finding], unjudged: Sequence[str]) -> bytes:
    """Returns text format 0.0.4, as node_exporter's textfile collector reads it."""
    ranks = Counter(finding.rank for finding in found)
    of_names = {finding.name: finding for finding in found}
    labelled = ({"name": name, "rank": finding.rank, "proof": finding.proof} for name, finding in of_names.items())
    fit = "1 fit to be measured, 0 a condition prevents or distorts it, -1 not judged."
    return "".join((
        gauge("toll_doctor", fit, [({}, _state(found, unjudged))]),
        gauge("toll_doctor_findings", "Findings of each rank.", [({"rank": rank}, ranks[rank]) for rank in RANKS]),
        gauge("toll_doctor_finding", "1 for each finding.", [(labels, 1) for labels in labelled]),
        row_gauges(results.index.rows),
    )).encode()  # fmt: skip


# ---- a script --------------------------------------------------------------------------------------------------------

_SCRIPT = """\
#!/bin/sh
# Changes that `toll doctor` ({version}) suggests for {host}. Nothing has been changed. Read them, and then, as root:
#     sh FILE apply    makes them
#     sh FILE undo     writes back the values that were found
# Neither is kept over a restart of the system. A file that has another value than expected is left as it is.
set -u
direction=${{1-}} status=0
case $direction in
apply | undo) ;;
*)
  echo "usage: sh $0 apply|undo" >&2
  exit 2
  ;;
esac

complain() {{
  echo "$1" >&2
  status=1
}}

# PATH FOUND WANTED: writes one of the values where the file has the other. Of a file that lists all values, it has the
# one in brackets.
change() {{
  from=$2 to=$3
  [ "$direction" = apply ] || from=$3 to=$2
  if ! now=$(cat "$1" 2>/dev/null); then
    complain "$1: not readable, and left as it is"
    return
  fi
  case $now in *"[$from]"*) now=$from ;; *"[$to]"*) now=$to ;; esac
  if [ "$now" = "$to" ]; then
    echo "$1: $to already"
  elif [ "$now" != "$from" ]; then
    complain "$1: $now in place of $from, and left as it is"
  elif {{ printf '%s\\n' "$to" >"$1"; }} 2>/dev/null; then
    echo "$1: $from -> $to"
  else
    complain "$1: not writable, and left as it is"
  fi
}}

{lines}
exit $status
"""
_NOTHING = """\
#!/bin/sh
# `toll doctor` ({version}) suggests no change of a setting for {host}.

{lines}
echo 'nothing here is mended by a setting of the system'
"""


def script(results: Results, found: Sequence[Finding], changed: Changed) -> bytes:
    """Returns a script for the user to read before running it. Findings that no setting mends are in comments."""
    lines: list[str] = []
    for finding in found:
        changes = [change for change, asking in changed.items() if asking == finding]
        lines.append(f"# {printable(finding.claim)}")
        lines += [f"change {shlex.join(change)}" for change in changes] or [f"#   by hand: {printable(finding.remedy)}"]
    whole = _SCRIPT if changed else _NOTHING
    host = printable(results.index.machine.host)
    return whole.format(version=results.index.run.tollmeter, host=host, lines="\n".join(lines)).encode()
