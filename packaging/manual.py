# SPDX-License-Identifier: Apache-2.0
"""Writes the manual page from the command itself, and the completions of bash, zsh and fish:

    .venv/bin/python packaging/manual.py FOLDER

FOLDER/toll.1, FOLDER/toll.bash, FOLDER/_toll (zsh) and FOLDER/toll.fish. `make release` calls it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from typer.completion import get_completion_script
from typer.main import get_command

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tollmeter.cli.app import app  # noqa: E402
from tollmeter.version import VERSION  # noqa: E402

EXIT_CODE = re.compile(r"^\| (\d+) \| ([^|]+) \|", re.MULTILINE)


class Word(NamedTuple):
    """An option by all its names, or an argument by the name that stands for it. takes: whether a value follows."""

    names: tuple[str, ...]
    about: str
    takes: bool
    repeats: bool


class Verb(NamedTuple):
    name: str
    about: str
    options: tuple[Word, ...]
    arguments: tuple[Word, ...]


def verbs() -> list[Verb]:
    """Every verb of the command, in its order."""
    found = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        options = tuple(_word(one) for one in command.params if one.param_type_name == "option")
        arguments = tuple(_word(one) for one in command.params if one.param_type_name == "argument")
        found.append(Verb(name, command.help or "", options, arguments))
    return found


def _word(parameter: object) -> Word:
    about = getattr(parameter, "help", None) or ""
    is_flag = bool(getattr(parameter, "is_flag", False))
    names = (*parameter.opts, *parameter.secondary_opts)  # type: ignore[attr-defined]
    return Word(names, about, not is_flag, getattr(parameter, "nargs", 1) == -1)


# ---- the manual page ------------------------------------------------------------------------------------------------


def roff(text: str) -> str:
    """Text that no request of roff begins, with its hyphens as they are typed."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


def manual(found: list[Verb]) -> str:
    """In roff, with the macros of man(7)."""
    lines = [
        '.\\" SPDX-License-Identifier: Apache-2.0',
        f'.TH TOLL 1 "" "Tollmeter {VERSION}" "User Commands"',
        ".SH NAME",
        f"toll \\- {roff('measures what it costs when code crosses a boundary on a machine')}",
        ".SH SYNOPSIS",
        *(f".B toll {verb.name}\n{roff(_synopsis(verb))}\n.br" for verb in found),
        ".B toll \\-\\-version",
        ".SH COMMANDS",
    ]
    for verb in found:
        lines += [f".SS {verb.name}", roff(verb.about), *_listed((*verb.arguments, *verb.options))]
    page = (ROOT / "docs/exit-codes.md").read_text(encoding="utf-8")
    lines += [".SH EXIT STATUS", *(f".TP\n.B {code}\n{roff(meaning)}" for code, meaning in EXIT_CODE.findall(page))]
    return "\n".join(lines) + "\n"


def _synopsis(verb: Verb) -> str:
    return " ".join(["[OPTION]...", *(f"[{one.names[0].upper()}]{'...' * one.repeats}" for one in verb.arguments)])


def _listed(words: tuple[Word, ...]) -> Iterator[str]:
    for word in words:
        is_option = word.names[0].startswith("-")
        names = ", ".join(f"\\fB{roff(name)}\\fR" if is_option else f"\\fI{name.upper()}\\fR" for name in word.names)
        value = " \\fIVALUE\\fR" if is_option and word.takes else ""
        yield f".TP\n{names}{value}\n{roff(word.about)}"


# ---- completions ----------------------------------------------------------------------------------------------------

SHELLS = {"toll.bash": "bash", "_toll": "zsh", "toll.fish": "fish"}


def write(folder: Path) -> None:
    """The manual page, and for each shell the script that asks `toll` for the words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toll.1").write_text(manual(verbs()), encoding="utf-8")
    for name, shell in SHELLS.items():
        script = get_completion_script(prog_name="toll", complete_var="_TOLL_COMPLETE", shell=shell)
        (folder / name).write_text(f"{script}\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
