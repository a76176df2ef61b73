# SPDX-License-Identifier: Apache-2.0
"""Judged rows as the test cases that a CI system reads: JUnit's XML, KTAP, and the annotations of GitHub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple
from xml.sax.saxutils import quoteattr

from tollmeter.report.columns import clean

MOST_ANNOTATIONS = 10
"""GitHub shows as many of one step."""


class Case(NamedTuple):
    """probe: what the case is filed under. message: why it failed or was skipped, or what it showed."""

    name: str
    probe: str
    result: Literal["passed", "failed", "skipped"]
    message: str = ""


class Annotation(NamedTuple):
    level: Literal["error", "warning"]
    title: str
    message: str


def junit(suite: str, cases: Sequence[Case]) -> str:
    """One test case for each row."""
    results = Counter(case.result for case in cases)
    numbers = f'tests="{len(cases)}" failures="{results["failed"]}" skipped="{results["skipped"]}" errors="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {numbers}>",
        f"<testsuite name={_quoted(suite)} {numbers}>",
        *(line for case in cases for line in _junit_case(case)),
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _junit_case(case: Case) -> Iterator[str]:
    named = f"<testcase classname={_quoted(case.probe)} name={_quoted(case.name)}"
    if case.result == "passed":
        yield f"{named}/>"
        return
    element = "failure" if case.result == "failed" else "skipped"
    yield f"{named}><{element} message={_quoted(case.message)}/></testcase>"


def _quoted(text: str) -> str:
    """An attribute of XML, which holds no control character."""
    return quoteattr(clean(text))


def ktap(cases: Sequence[Case]) -> str:
    """Version 1 of the kernel's test protocol. A `#` would begin a directive."""
    lines = ["KTAP version 1", f"1..{len(cases)}", *(_ktap_case(number, case) for number, case in enumerate(cases, 1))]
    return "\n".join(lines) + "\n"


def _ktap_case(number: int, case: Case) -> str:
    message = clean(case.message).replace("#", "")
    directive = {"passed": f"# {message}", "failed": f"# {message}", "skipped": f"# SKIP {message}"}[case.result]
    line = f"{'not ok' if case.result == 'failed' else 'ok'} {number} {clean(case.name).replace('#', '')}"
    return f"{line} {directive}" if message else line


def github(several: Iterable[Annotation]) -> str:
    """The errors first; at most ten in all."""
    ordered = sorted(several, key=lambda one: one.level != "error")[:MOST_ANNOTATIONS]
    return "".join(
        f"::{annotation.level} title={_escaped(annotation.title, ',:')}::{_escaped(annotation.message)}\n"
        for annotation in ordered
    )


def _escaped(text: str, more: str = "") -> str:
    """As the runner reads a command: what ends a line or a property is by its code. No other control character."""
    special = f"%\r\n{more}"
    return "".join(f"%{ord(sign):02X}" if sign in special else clean(sign) for sign in text)
