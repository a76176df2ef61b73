# SPDX-License-Identifier: Apache-2.0
"""Writes the manual page and the completions of bash, zsh and fish from the command itself:

    .venv/bin/python packaging/manual.py FOLDER

FOLDER/toll.1, FOLDER/toll.bash, FOLDER/_toll (zsh) and FOLDER/toll.fish. `make release` calls it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from typer.main import get_command

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tollmeter.catalog import suites  # noqa: E402
from tollmeter.cli.main import app  # noqa: E402
from tollmeter.cli.show import WHAT  # noqa: E402
from tollmeter.toolchain.build import probe_names  # noqa: E402
from tollmeter.version import VERSION  # noqa: E402

EXIT_CODE = re.compile(r"^\| (\d+) \| ([^|]+) \|", re.MULTILINE)


class Word(NamedTuple):
    """An option by all its names, or an argument by the name that stands for it. takes: whether a value follows."""

    names: tuple[str, ...]
    about: str
    takes: bool
    repeats: bool


class Verb(NamedTuple):
    """words: what may follow it, besides files."""

    name: str
    about: str
    options: tuple[Word, ...]
    arguments: tuple[Word, ...]
    words: tuple[str, ...]


def verbs() -> list[Verb]:
    """Every verb of the command, in its order."""
    known = {"run": (*suites(ROOT / "suites"), *sorted(probe_names(ROOT / "probes"))), "list": WHAT}
    found = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        options = tuple(_word(one) for one in command.params if one.param_type_name == "option")
        arguments = tuple(_word(one) for one in command.params if one.param_type_name == "argument")
        found.append(Verb(name, command.help or "", options, arguments, tuple(known.get(name, ()))))
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


def bash(found: list[Verb]) -> str:
    """Options and words by verb; files for all else."""
    cases = "\n".join(f"    {verb.name}) words='{' '.join([*_names(verb), *verb.words])}' ;;" for verb in found)
    return f"""# SPDX-License-Identifier: Apache-2.0
_toll() {{
  local words='{" ".join(verb.name for verb in found)} --version --help'
  [ "$COMP_CWORD" = 1 ] || case ${{COMP_WORDS[1]}} in
{cases}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _toll toll ./toll
"""


def _names(verb: Verb) -> Iterator[str]:
    for option in verb.options:
        yield from option.names


def zsh(found: list[Verb]) -> str:
    """The same with what each word is for."""
    described = " ".join(_quoted(f"{verb.name}:{verb.about}") for verb in found)
    cases = "\n".join(
        f"    {verb.name}) _arguments {' '.join([*_of_zsh(verb), _rest_of_zsh(verb)])} ;;" for verb in found
    )
    return f"""#compdef toll
# SPDX-License-Identifier: Apache-2.0
_toll() {{
  local -a verbs
  verbs=({described})
  if (( CURRENT == 2 )); then
    _describe command verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{cases}
  esac
}}
_toll "$@"
"""


def _of_zsh(verb: Verb) -> Iterator[str]:
    for option in verb.options:
        about = re.sub(r"([\[\]:])", r"\\\1", option.about)
        for name in option.names:
            yield _quoted(f"*{name}[{about}]{':value:_files' * option.takes}")


def _rest_of_zsh(verb: Verb) -> str:
    return _quoted(f"*:word:({' '.join(verb.words)})" if verb.words else "*:file:_files")


def _quoted(text: str) -> str:
    """One word of zsh and fish."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def fish(found: list[Verb]) -> str:
    """A line for each verb, option and word."""
    lines = ["# SPDX-License-Identifier: Apache-2.0"]
    for verb in found:
        lines.append(f"complete -c toll -n __fish_use_subcommand -a {verb.name} -d {_quoted(verb.about)}")
        here = f"complete -c toll -n '__fish_seen_subcommand_from {verb.name}'"
        for option in verb.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            lines.append(f"{here} {names}{' -r' * option.takes} -d {_quoted(option.about)}")
        if verb.words:
            lines.append(f"{here} -a '{' '.join(verb.words)}'")
    return "\n".join(lines) + "\n"


WRITERS = {"toll.1": manual, "toll.bash": bash, "_toll": zsh, "toll.fish": fish}


def write(folder: Path) -> None:
    """All four."""
    found = verbs()
    folder.mkdir(parents=True, exist_ok=True)
    for name, writer in WRITERS.items():
        (folder / name).write_text(writer(found), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
