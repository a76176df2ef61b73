# SPDX-License-Identifier: Apache-2.0
"""The documents are whole: every verb and meaning is told, every page is reached, every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from tidy.house import ROOT, files, hold, text, under
from tollmeter.cli.verbs import VERBS
from tollmeter.toolchain.accepting import meanings
from tollmeter.version import VERSION

START = "README.md"
STRUCTURE = "docs/architecture.md"
WITH_PATHS = (STRUCTURE, "docs/measuring.md")
MEANINGS = "docs/add-a-probe.md"
DECISIONS = "docs/decisions/"
PARTS = ("Context", "Decision", "Consequences")
MOST_LINES = 60
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def verbs() -> list[str]:
    """What `toll --help` offers."""
    return [*VERBS]


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


PATH = re.compile(r"`([\w./-]+/|[\w./-]*\.(?:py|c|h|cc|md|toml|mk|json|sql|html|js))`")
DEFINED = re.compile(r"^ *(?:def|class) (\w+)|^(\w+)(?:: \w+)? =", re.MULTILINE)
PLACE = re.compile(r"`([\w/]+\.py)` \(([^)]*)\)")


@cache
def folders() -> set[str]:
    return {str(parent) for name in files() for parent in PurePosixPath(name).parents}


def named(path: str) -> list[str]:
    """The files and folders that a path of a page may mean: it is from the root, or from any folder."""
    return [name for name in (*files(), *folders()) if f"/{name}".endswith(f"/{path.rstrip('/')}")]


def defined(source: str) -> set[str]:
    """The functions, classes and constants of a Python file."""
    return {name for pair in DEFINED.findall(source) for name in pair}


def stale_paths(page: str, words: str) -> Iterator[str]:
    yield from (f"{page} names {path}, which is not there" for path in PATH.findall(words) if not named(path))


def stale_names(page: str, words: str) -> Iterator[str]:
    """What `file.py` (`function`) promises and the file does not define."""
    for path, listed in PLACE.findall(words):
        sources = [text(name) for name in named(path)]
        for name in re.findall(r"`(\w+)`", listed):
            if not any(name in defined(source) for source in sources):
                yield f"{page} names {name} of {path}, which does not define it"


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


def test_every_path_of_the_structure_is_there_and_defines_what_is_named_beside_it() -> None:
    hold(said for page in WITH_PATHS for said in stale_paths(page, text(page)))
    assert len(PLACE.findall(text(STRUCTURE))) > 20
    hold(stale_names(STRUCTURE, text(STRUCTURE)))
    assert list(stale_paths("", "`bare/limits/` of `numbers/row_of.py`")) == [" names bare/limits/, which is not there"]
    assert list(stale_names("", "`numbers/row_of.py` (`row_of`, then `row_for`)")) == [
        " names row_for of numbers/row_of.py, which does not define it"
    ]


def test_every_file_of_the_runtime_is_in_its_table() -> None:
    words = text(STRUCTURE)
    runtime = [name for name in under("probes/runtime/", ".c", ".h") if name.count("/") == 2]
    assert runtime
    hold(
        f"{STRUCTURE} does not name {name}: say what it does"
        for name in runtime
        if f"`{PurePosixPath(name).name}`" not in words
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


def test_every_finding_and_every_chart_has_a_test() -> None:
    """By its name in a test's code, or at the beginning of a line of an approved text."""
    tests = "".join(map(text, (*under("tests/", ".py"), *under("tests/snapshots/charts", ".txt"))))
    for folder, pattern, place in (
        ("findings", r'@rule\(\s*"([^"]+)"', "ON_AND_OFF in tests/unit/test_findings.py"),
        ("report/charts", r'Subject\(\s*"([^"]+)"', "tests/unit/test_report_charts.py"),
    ):
        names = [name for path in under(f"src/tollmeter/{folder}/", ".py") for name in re.findall(pattern, text(path))]
        assert len(names) > 20
        hold(
            f"{name} has no test: add it to {place}"
            for name in names
            if not re.search(
                rf'[".]{(last := re.escape(name.rpartition(".")[2]))}"|^\+?{last} \(general\): ', tests, re.MULTILINE
            )
        )


def test_every_field_of_a_probe_is_in_the_table_of_fields() -> None:
    declared = re.search(r"^struct toll_probe \{\n(.*?)^\};", text("probes/runtime/toll.h"), re.MULTILINE | re.DOTALL)
    assert declared
    code = re.sub(r"/\*.*?\*/", "", declared[1], flags=re.DOTALL)
    fields = set(re.findall(r"(\w+);|\(\*(\w+)\)\(", code))
    named = {name for pair in fields for name in pair if name}
    assert {"question", "body", "control_calls"} <= named
    table = re.search(r"^\| field of `toll_probe`.*?\n\n", text(MEANINGS), re.MULTILINE | re.DOTALL)
    assert table
    told = set(re.findall(r"`(\w+)`", re.sub(r"^(\|[^|]*\|).*$", r"\1", table[0], flags=re.MULTILINE)))
    hold(f"{MEANINGS} does not name the field .{name} of toll.h: say what holds without it" for name in named - told)
    hold(f"{MEANINGS} names .{name}, which is no field in toll.h" for name in told - named - {"toll_probe"})


def test_the_version_of_the_sources_is_that_of_the_packages() -> None:
    """pyproject.toml reads it from the source; Debian and the citation repeat it."""
    assert text("debian/changelog").startswith(f"tollmeter ({VERSION}-")
    assert f"\nversion: {VERSION}\n" in text("CITATION.cff")
