# SPDX-License-Identifier: Apache-2.0
"""Every command that a run prints can be pasted: a shell reads it as it is meant, and its verb takes its options."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import typer

from support import example_runs, study_run
from support.rendered import printed
from tollmeter import root
from tollmeter.catalog import read_suite
from tollmeter.cli.app import app
from tollmeter.cli.printing import print_columns
from tollmeter.extras import install_line
from tollmeter.library.derive import timed_command
from tollmeter.library.places import SUITES
from tollmeter.model import Results, Surroundings
from tollmeter.report import markdown, page
from tollmeter.report.text_layout import wrap
from tollmeter.store.request import Request

HERE = "/opt/my tools/it's here/toll"
FOLDER = "runs/my 'odd' run of a machine whose name is long enough for a line of its own"
VERBS = typer.main.get_command(app)
INSTALLERS = ("apt-get", "dnf", "apk", "pacman")


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "COMMAND", HERE)


def with_run(made: Results, **changes: object) -> Results:
    run = msgspec.structs.replace(made.index.run, folder=FOLDER, **changes)
    again = root.typed("run", "kernel.*", "--folder", "/mnt/my disk", "--cpus", "0,1")
    request = {**made.request, "anew": again, "command": again}
    return msgspec.structs.replace(made, index=msgspec.structs.replace(made.index, run=run), request=request)


def quiet() -> Results:
    return with_run(example_runs.small())


def busy() -> Results:
    return with_run(example_runs.small(), verdict="busy")


def interrupted() -> Results:
    return with_run(example_runs.small(), verdict="interrupted")


def deprioritised() -> Results:
    return with_run(example_runs.small(), verdict="held back", surroundings=Surroundings(nice=10))


def short() -> Results:
    return with_run(example_runs.small(), verdict="too short", unanswered="most numbers have fewer than 3 visits")


def refused() -> Results:
    """No row has a number, for want of a package."""
    reason = f"no qemu-arm here: {install_line(['qemu-user'])}"
    rows = [msgspec.structs.replace(row, status="unsupported", reason=reason, median=None)
            for row in example_runs.small().index.rows]  # fmt: skip
    return example_runs.with_rows(with_run(example_runs.small(), verdict="too short"), rows)


def study() -> Results:
    """Whose published figures want another run."""
    rows = [row for row in study_run.study().index.rows if row.abi == "x86_64"]
    return example_runs.with_rows(with_run(study_run.study(), verdict="quiet", status="ok"), rows)


def many() -> Results:
    """More rows of one probe than a terminal shows."""
    row = next(row for row in example_runs.small().index.rows if row.status == "ok" and row.parameters)
    name = next(iter(row.parameters))
    rows = [msgspec.structs.replace(row, parameters={**row.parameters, name: number}) for number in range(100)]
    return example_runs.with_rows(with_run(example_runs.small()), rows)


MAKERS = (quiet, busy, interrupted, deprioritised, short, refused, study, many)


STARTS = re.compile(rf"{re.escape(shlex.quote(HERE))}|(?<![\w/])\.?/?toll (?=[a-z-]+ )|\b(?:{'|'.join(INSTALLERS)}) ")


def in_lines(lines: list[str]) -> Iterator[str]:
    """From where one begins to the backtick that closes it, or else to the end of its line."""
    for line in lines:
        spans = re.findall(r"`([^`]*)", line)[::2]
        yield from spans
        rest = re.sub(r"`[^`]*(`|$)", "", line)
        if found := STARTS.search(rest):
            yield rest[found.start() :]


def in_markdown(text: str) -> Iterator[str]:
    """Code spans and lines of code; outside of these nothing may look like a command."""
    for line in text.splitlines():
        if line.startswith("    "):
            yield line
        else:
            yield from re.findall(r"`([^`]*)`", line)
            assert not STARTS.search(re.sub(r"`[^`]*`", "", line)), line


def in_page(text: str) -> Iterator[str]:
    """What stands in code elements; outside of these nothing may look like a command."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    for piece in re.findall(r"<code\b[^>]*>(.*?)</code>", body, re.DOTALL):
        yield html.unescape(piece)
    shown = re.sub(r"<code\b.*?</code>|<[^>]+>", "", body, flags=re.DOTALL)
    assert not STARTS.search(html.unescape(shown))


def check(typed: str) -> None:
    """One that is not Tollmeter's has only to be whole."""
    program, *words = shlex.split(typed.strip())
    if program in INSTALLERS:
        assert "install" in words or "add" in words or "-S" in words
        return
    assert program == HERE, typed
    verb = VERBS.commands[words[0]]  # type: ignore[attr-defined]
    verb.make_context(words[0], words[1:])


@pytest.mark.parametrize("make", MAKERS)
def test_commands_of_the_terminal_can_be_pasted(make: Callable[[], Results]) -> None:
    shown = make()
    for width in (40, 80, 100):
        for whole in (False, True):
            found = list(in_lines(printed(shown, width, whole=whole).splitlines()))
            assert found
            for typed in found:
                check(typed)


@pytest.mark.parametrize("make", MAKERS)
def test_commands_of_markdown_and_the_page_can_be_pasted(make: Callable[[], Results]) -> None:
    shown = make()
    for found in (list(in_markdown(markdown.render(shown))), list(in_page(page.render(shown)))):
        assert found
        for typed in found:
            check(typed)


def test_every_verb_of_advice_was_seen() -> None:
    """Else the tests above would pass where nothing is advised."""
    lines = [line for make in MAKERS for whole in (False, True) for line in printed(make(), whole=whole).splitlines()]
    words = [shlex.split(typed.strip()) for typed in in_lines(lines)]
    assert {"show", "report", "run", "serve"} <= {word[1] for word in words}
    assert any("--resume" in word for word in words) and any("apt-get" in word for word in words)
    assert any("csv" in word for word in words)


@pytest.mark.parametrize("width", [10, 20, 40])
def test_a_command_is_never_broken_and_words_around_it_are(width: int) -> None:
    said = "`toll run 'my suite.toml' --abi x86_64,ia32`"
    typed = f"{root.typed('run', 'my suite.toml')} --abi x86_64,ia32"
    lines = wrap(f"For a second machine as well {said} runs all of it.", width)
    assert sum(f"`{typed}`" in line for line in lines) == 1
    assert len(lines) > 2


def test_what_to_type_stands_under_a_table_and_is_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a column of nine characters an apt-get line was fourteen lines."""
    monkeypatch.setenv("COLUMNS", "40")
    mend = install_line([f"package-{number}" for number in range(9)]).strip("`")
    print_columns(("abi", "missing"), [("arm", "no compiler")], "table", below=[("arm", mend)])
    assert f"arm:\n    {mend}\n" in capsys.readouterr().out


def test_the_command_of_a_run_says_where_its_files_and_its_peer_were(tmp_path: Path) -> None:
    suite, files = read_suite(SUITES / "default.toml"), str(tmp_path / "a b")
    asked = Request(id="a", suite=suite, started="", seed=1, budget_seconds=2, tollmeter="0", folder=files, peer="host")
    words = shlex.split(timed_command(asked))
    assert words[words.index("--folder") + 1] == files and words[words.index("--peer") + 1] == "host"
