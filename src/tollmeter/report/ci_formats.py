# SPDX-License-Identifier: Apache-2.0
"""Comparisons and judged rows for programs: JSON, Markdown, Go's benchmarks, JUnit, KTAP, GitHub's annotations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import Literal, NamedTuple
from xml.sax.saxutils import quoteattr

from tollmeter.model import Value, json_document, printable
from tollmeter.report.blocks import Table
from tollmeter.report.compared import blocks, cause_sentences
from tollmeter.report.compared_rows import Compared, change_verdict, full_name, ratio_figure
from tollmeter.report.markdown import AROUND_ROWS, MOST_CHARACTERS, first_rows, of_blocks

MOST_ANNOTATIONS = 10
"""Annotations that GitHub shows for one step."""


class Case(NamedTuple):
    """A test case. probe: name of its class in JUnit. message: why it failed or was skipped, or its result."""

    name: str
    probe: str
    result: Literal["passed", "failed", "skipped"]
    message: str = ""


def junit(suite: str, cases: Sequence[Case]) -> str:
    """Returns one test case for each row, as JUnit's XML."""
    results = Counter(case.result for case in cases)
    numbers = f'tests="{len(cases)}" failures="{results["failed"]}" skipped="{results["skipped"]}" errors="0"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {numbers}>",
             f"<testsuite name={_quoted(suite)} {numbers}>"]  # fmt: skip
    elements = {"failed": "failure", "skipped": "skipped"}
    for case in cases:
        named = f"<testcase classname={_quoted(case.probe)} name={_quoted(case.name)}"
        content = f"<{elements[case.result]} message={_quoted(case.message)}/>" if case.result in elements else ""
        lines.append(f"{named}>{content}</testcase>" if content else f"{named}/>")
    return "\n".join([*lines, "</testsuite>", "</testsuites>"]) + "\n"


def _quoted(text: str) -> str:
    """Returns an XML attribute without control characters."""
    return quoteattr(printable(text))


def ktap(cases: Sequence[Case]) -> str:
    """Returns the cases in version 1 of the kernel's test protocol, without `#` in names, which would begin a
    directive."""
    lines = ["KTAP version 1", f"1..{len(cases)}"]
    for number, case in enumerate(cases, 1):
        name, message = (printable(text).replace("#", "") for text in (case.name, case.message))
        skip = "SKIP " if case.result == "skipped" else ""
        directive = f" # {skip}{message}" if message else ""
        lines.append(f"{'not ok' if case.result == 'failed' else 'ok'} {number} {name}{directive}")
    return "\n".join(lines) + "\n"


def annotation(level: Literal["error", "warning"], title: str, message: str) -> str:
    """Returns a line that GitHub shows as an annotation."""
    return f"::{level} title={_escaped(title, ',:')}::{_escaped(message)}\n"


def _escaped(text: str, more: str = "") -> str:
    """Returns text escaped for the runner's command syntax: line ends and property separators become codes, and other
    control characters are removed."""
    special = f"%\r\n{more}"
    return "".join(f"%{ord(sign):02X}" if sign in special else printable(sign) for sign in text)


# ---- compared formats -----------------------------------------------------------------------------------------------

_FORMAT = 2
Benchmark = tuple[str, str, Sequence[float]]
"""Name in Go's form without its prefix, unit, and a value for each visit."""
_GO_UNITS = {"ns": "ns/op", "B": "B/op", "cycle": "cycles/op", "instruction": "instrs/op", "fault": "faults/op"}


def as_json(compared: Compared) -> bytes:
    """Returns the runs, the reference first, and the comparison of each other run with it. If the rows of one run are
    compared by a property, `by` is its name, and labels are its values."""
    answer = {
        "format": _FORMAT, "by": compared.by, "machines": compared.machines,
        "runs": [{"label": label, "run": results.index.run, "machine": results.index.machine}
                 for label, results in zip(compared.labels, compared.runs, strict=True)],
        "comparisons": compared.comparisons,
    }  # fmt: skip
    return json_document(answer)


def as_markdown(compared: Compared, *, whole: bool) -> str:
    """Returns the comparison as Markdown. If it is longer than MOST_CHARACTERS, the last rows of the longest table are
    left out."""
    parts = blocks(compared, whole=whole)
    texts = of_blocks(parts)
    over = sum(len(part) + 2 for part in texts) - MOST_CHARACTERS
    if over > 0:
        longest = max(range(len(texts)), key=lambda place: len(texts[place]) * isinstance(parts[place], Table))
        if isinstance(table := parts[longest], Table):
            shown = first_rows(table, len(texts[longest]) - over - AROUND_ROWS)
            note = f"{len(table.rows) - len(shown.rows)} more rows are left out."
            texts[longest : longest + 1] = of_blocks((shown, note))
    return "\n\n".join(texts) + "\n"


def cases(compared: Compared) -> list[Case]:
    """Returns one case for each row and run: it fails if the row is slower and the machine does not explain it."""
    judged_cases = []
    for label, comparison in zip(compared.labels[1:], compared.comparisons, strict=True):
        for change in comparison.changes:
            of = f" {label}" if len(compared.comparisons) > 1 else ""
            name, probe = f"{full_name(change.old)}{of}", change.old.probe
            if change.verdict == "slower" and change.cause != "machine":
                judged_cases.append(
                    Case(name, probe, "failed", f"{change_verdict(change)}, ratio {ratio_figure(change)}")
                )
            elif change.verdict == "cannot tell" or change.cause == "machine":
                judged_cases.append(Case(name, probe, "skipped", change_verdict(change).removeprefix("? ")))
            else:
                judged_cases.append(Case(name, probe, "passed"))
    return judged_cases


def annotated(compared: Compared) -> str:
    """Returns an error for each row that is slower, largest slowdown first, and a warning for each run whose changes
    are due to the machine."""
    slower = [change for comparison in compared.comparisons for change in comparison.changes
              if change.verdict == "slower" and change.cause != "machine"]  # fmt: skip
    worst = sorted(slower, key=lambda change: -abs(log(change.ratio.value)))
    lines = [annotation("error", full_name(change.old), change_verdict(change)) for change in worst]
    lines += [annotation("warning", "toll compare", sentence) for sentence in cause_sentences(compared)]
    return "".join(lines[:MOST_ANNOTATIONS])


def as_benchmarks(compared: Compared, values: Iterable[Iterable[Benchmark]]) -> Iterator[str]:
    """Yields the lines that `benchstat -col run FILE` reads: one for each visit, with the run as a key of the file."""
    for label, results, lines in zip(compared.labels, compared.runs, values, strict=True):
        machine = results.index.machine
        yield f"run: {label}\ncpu: {printable(machine.cpu)}\nkernel: {printable(machine.kernel)}\n"
        for name, unit, by_visit in lines:
            yield "".join(f"Benchmark{name} 1 {value:.9g} {_GO_UNITS.get(unit, unit)}\n" for value in by_visit)


def go_name(probe: str, metric: str, parameters: Iterable[tuple[str, Value]], abi: str, target: str) -> str:
    """Returns a benchmark name without blanks: `Memory.latency/metric=load/size=4096/abi=x86_64/target=local`."""
    keys = (("metric", metric), *parameters, ("abi", abi), ("target", target))
    words = (probe[:1].upper() + probe[1:], *(f"{name}={value}" for name, value in keys))
    return "/".join(re.sub(r"[\s/]+", "_", printable(word)) for word in words)
