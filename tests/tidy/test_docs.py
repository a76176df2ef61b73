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


def test_every_verb_is_told_in_the_readme() -> None:
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


def test_decisions_are_numbered_without_a_gap() -> None:
    names = [name.removeprefix(DECISIONS) for name in under(DECISIONS, ".md")]
    assert names
    hold(
        f"{DECISIONS}{name} should begin with {number:04}-"
        for number, name in enumerate(names, 1)
        if not name.startswith(f"{number:04}-")
    )
    hold(
        f"{DECISIONS}{name} does not begin with a title"
        for name in names
        if not text(DECISIONS + name).startswith("# ")
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
