# SPDX-License-Identifier: Apache-2.0
"""The documents are whole: every verb and meaning is told, every page is reached, every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import PurePosixPath

from tidy.house import ROOT, files, hold, text, under
from tollmeter.toolchain.accepting import meanings

START = "README.md"
MEANINGS = "docs/add-a-probe.md"
DECISIONS = "docs/decisions/"
PARTS = ("Context", "Decision", "Consequences")
MOST_LINES = 60
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def verbs() -> list[str]:
    """What `toll --help` offers: the first word of each line of its list of commands."""
    words = [ROOT / ".venv/bin/python", "-I", "-m", "tollmeter", "--help"]
    told = subprocess.run(words, capture_output=True, check=True, text=True, env={"COLUMNS": "200", "NO_COLOR": "1"})
    commands = told.stdout.partition("Commands")[2]
    return re.findall(r"^[│ ] ([a-z][a-z-]+) {2,}", commands, re.MULTILINE)


def links(page: str) -> Iterator[str]:
    """What a page links to in the tree, as paths from the root; one that leaves the tree begins with `..`."""
    for target in LINK.findall(text(page)):
        parts: list[str] = []
        for part in (PurePosixPath(page).parent / target).parts:
            if part == ".." and parts and parts[-1] != "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        yield "/".join(parts)


def reached(start: str) -> set[str]:
    """Every page that a reader comes to from one, a link to a folder being one to all that stands in it."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        for target in links(page) if page.endswith(".md") else ():
            waiting += [name for name in files() if name == target or name.startswith(f"{target.rstrip('/')}/")]
    return seen


def decisions() -> dict[str, int]:
    """The pages of decisions, with the number that each has in its name."""
    return {name: int(PurePosixPath(name).name[:4]) for name in under(DECISIONS, ".md")}


def test_every_verb_is_in_the_readme() -> None:
    offered = verbs()
    assert {"run", "list", "show", "report"} <= set(offered)
    hold(
        f"{START} does not tell of `toll {verb}`: say what it answers"
        for verb in offered
        if f"toll {verb}" not in text(START)
    )


def test_every_page_is_reached_from_the_readme() -> None:
    pages = under("docs/", ".md")
    assert pages
    hold(
        f"{page} is linked from no page that a reader comes to; link it or delete it"
        for page in set(pages) - reached(START)
    )


def test_every_link_leads_somewhere() -> None:
    hold(
        f"{page} links to {target}, which is not there"
        for page in under("", ".md")
        for target in links(page)
        if not (ROOT / target).exists()
    )


def test_decisions_have_a_number_three_parts_and_at_most_60_lines() -> None:
    numbers = decisions()
    assert numbers
    assert len(set(numbers.values())) == len(numbers), "two decisions have one number"
    for name, number in numbers.items():
        page = text(name)
        lines = page.count("\n")
        missing = [part for part in PARTS if f"\n## {part}\n" not in page]
        assert page.startswith(f"# {number}. "), f"{name} does not begin with '# {number}. '"
        assert not missing, f"{name} has no heading {' or '.join(missing)}"
        assert lines <= MOST_LINES, f"{name} has {lines} lines, {MOST_LINES} are the most: cut what nobody needs"


def test_every_decision_that_is_named_has_a_page() -> None:
    numbers = set(decisions().values())
    hold(
        f"{name} names decision {number}, which has no page in {DECISIONS}"
        for name in under("", ".py", ".c", ".cc", ".h", ".md", ".toml", ".mk")
        for number in re.findall(r"(?:[Dd]ecision\s+|decisions/)(\d+)", text(name))
        if int(number) not in numbers
    )


def test_every_meaning_that_a_probe_gives_is_in_the_table() -> None:
    known = meanings(ROOT)
    assert {"core-clock", "copy-bandwidth-of-size"} <= known
    hold(
        f'{name} gives a metric the meaning "{means}", which {MEANINGS} does not name: add it with its reader'
        for name in under("probes/", ".c", ".cc", ".h")
        for means in re.findall(r'\.means = "([^"]+)"', text(name))
        if means not in known
    )
