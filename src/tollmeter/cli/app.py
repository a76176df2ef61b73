# SPDX-License-Identifier: Apache-2.0
"""The verbs with their options, as typer reads them. A verb's module is imported when that verb is typed, so that
`toll` starts quickly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from tollmeter import starting
from tollmeter.cli.verbs import VERBS, Verb, help_text
from tollmeter.exit_codes import INTERRUPTED
from tollmeter.model import Failure

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.shell_completion import CompletionItem


def stoppable(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the verb with a message on Ctrl-C, on which Typer would exit silently. An error that follows a signal
    counts as Ctrl-C too, since a library may convert the interrupt."""

    @functools.wraps(verb)
    def stopped(*args: Any, **options: Any) -> Any:
        try:
            with starting.hearing_signals():
                return verb(*args, **options)
        except KeyboardInterrupt as error:
            raise Failure("interrupted", INTERRUPTED) from error
        except Exception as error:
            if starting.signal_received():
                raise Failure("interrupted", INTERRUPTED) from error
            raise

    return stopped


class _Commands(MutableMapping[str, "Command"]):
    """Verbs by name, each imported on first use."""

    def __init__(self) -> None:
        self._made: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made[name] = _command(name, VERBS[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Command) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _command(name: str, verb: Verb) -> Command:
    module, _, function = verb.home.partition(":")
    found = getattr(import_module(f"tollmeter.cli.{module}"), function)
    made = typer.Typer(help=verb.summary, rich_markup_mode=None, add_completion=False)
    if callable(found):
        made.command(name, help=verb.summary)(stoppable(found))
    else:
        for sub, of_group in found.items():
            made.command(sub)(stoppable(of_group))
        made.callback()(lambda: None)
    command = get_command(made)
    command.name = name
    return command


class Verbs(TyperGroup):
    """The verbs; help and completion import none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": None})
        self.commands = _Commands()

    def list_commands(self, ctx: Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_help(self, ctx: Context) -> str:
        del ctx
        return help_text().rstrip()

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        from typer._click.shell_completion import CompletionItem

        options = [item for item in super(TyperGroup, self).shell_complete(ctx, incomplete) if incomplete[:1] == "-"]
        names = [*VERBS, *_WORDS] if incomplete[:1] != "-" else []
        return options + [
            CompletionItem(name, help=VERBS[name].summary if name in VERBS else _WORDS[name])
            for name in names if name.startswith(incomplete)
        ]  # fmt: skip


_WORDS = {"help": "Print the verbs, or the options of one.", "version": "Print the version and its commit."}
app = typer.Typer(
    name="toll",
    cls=Verbs,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.callback()(lambda: None)
