# SPDX-License-Identifier: Apache-2.0
"""The verbs by subject, and the output of `toll --help`. This module imports no verb, so that the help appears
immediately."""

from __future__ import annotations

import shutil
import textwrap
from typing import NamedTuple

from tollmeter.root import COMMAND

ABOUT = "Measures what it costs when code crosses a boundary on this machine, and says why."


class Verb(NamedTuple):
    """A verb. home: its module in tollmeter.cli and its name there; for a group of verbs, their table."""

    home: str
    summary: str


_SECTIONS: dict[str, dict[str, Verb]] = {
    "Measure": {
        "doctor": Verb("doctor:doctor", "Say in 20 s whether this machine is fit to be measured, and set up right."),
        "run": Verb("run:run", "Measure this machine, print a summary and write the report."),
        "time": Verb("time:time_", "Time commands, one against the other, interleaved."),
        "sweep": Verb("sweep:sweep", "Measure at each value of a knob that a command sets, and name the best value."),
        "bill": Verb("bill:bill", "Count what a program crosses, and what it pays for it, item by item."),
        "profile": Verb("developing:profile", "Profile a probe by function, or two probes side by side."),
    },
    "Read": {
        "show": Verb("show:show", "Print a run's results, or those of some probes."),
        "report": Verb("sharing:report", "Write an HTML report of one run, or of two runs A and B; print its path."),
        "serve": Verb("sharing:serve", "Show all runs in a local browser; pages of runs in progress refresh."),
        "list": Verb("show:list_", "List probes, suites, ABIs, runs or findings."),
        "export": Verb("sharing:export", "Write rows, samples, tolls, findings or machine as a table, or a dataset."),
    },
    "Compare and gate": {
        "compare": Verb("compare:compare", "Compare runs against the first one."),
        "gate": Verb("compare:gate", "Exit with 3 if a row or command is slower than the reference by more than 5 %."),
        "health": Verb(
            "health:health", "Measure ten rows, and exit with 3 if this machine is slower than it should be."
        ),
        "history": Verb("show:history", "Print rows over all runs of a machine, and when they changed."),
    },
    "Other machines": {
        "fleet": Verb("fleet:VERBS", "Measure many machines, and name those that differ from their peers."),
        "bundle": Verb("sharing:bundle", "Write probes, plan and runner into one file, for a machine without Python."),
        "import": Verb("sharing:import_", "Create a run from what a bundle measured on another machine."),
        "publish": Verb("sharing:publish", "Write a run as one file without host name, users, paths, serial numbers."),
        "gallery": Verb("sharing:gallery", "Write a static site of machines, and any of them side by side."),
    },
    "ABIs and source code": {
        "layout": Verb("developing:layout", "Print the type layouts of ABIs side by side, and mark what differs."),
        "casts": Verb("developing:casts", "List C casts that trap on strict CPUs, or break where type widths differ."),
    },
    "Extend": {
        "new": Verb("developing:new", "Create a source file of a new probe that compiles and runs."),
        "selftest": Verb(
            "developing:selftest", "Plant faults in copies of real probes, and show whether each is detected."
        ),
    },
}
VERBS: dict[str, Verb] = {name: verb for section in _SECTIONS.values() for name, verb in section.items()}
EXAMPLES = (
    ("run", "measure this machine in two minutes; start with this"),
    ("run 'memory.*' --budget 30s", "one family of probes"),
    ("show LAST 'memory.*'", "rows of the last run"),
    ("compare LAST~1 LAST", "what changed since the run before it"),
    ("time 'sleep 0.1' 'sleep 0.101'", "two commands, one against the other"),
)


def help_text() -> str:
    """Returns all verbs by subject, examples first."""
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    lines = [f"Usage: {COMMAND} VERB [WORDS] [OPTIONS]", "", *textwrap.wrap(ABOUT, width), ""]
    lines += _table([(f"{COMMAND} {words}", about) for words, about in EXAMPLES], width)
    for section, verbs in _SECTIONS.items():
        lines += ["", f"{section}:", *_table([(name, verb.summary) for name, verb in verbs.items()], width)]
    more = (
        f"`{COMMAND} help VERB` lists the options of a verb.",
        f"`{COMMAND} --install-completion` adds completion of verbs, options, probes and runs to your shell.",
    )
    return "\n".join([*lines, "", *(line for part in more for line in textwrap.wrap(part, width)), ""])


def _table(rows: list[tuple[str, str]], width: int) -> list[str]:
    """Returns two columns; a text that does not fit next to its name is placed below it, unbroken."""
    indent = " " * (4 + max(len(name) for name, _ in rows))
    if width - len(indent) < 30:
        return [line for name, about in rows for line in (f"  {name}", *_below(about, width))]
    return [
        line
        for name, about in rows
        for line in textwrap.wrap(
            about, width, initial_indent=f"  {name}".ljust(len(indent)), subsequent_indent=indent
        )
    ]  # fmt: skip


def _below(about: str, width: int) -> list[str]:
    return textwrap.wrap(about, max(20, width), initial_indent="      ", subsequent_indent="      ")
