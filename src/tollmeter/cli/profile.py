# SPDX-License-Identifier: Apache-2.0
"""`toll profile`: where a probe's time goes, by function."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import print_notice, write
from tollmeter.library.options import names, seconds
from tollmeter.model import Failure, Profile

BY = ("perf", "signal")
LEAST_S, MOST_S = 0.1, 60.0
FAILED = 1


def profile(
    words: Annotated[list[str], typer.Argument(help="one probe or two, and NAME=VALUE")],
    *,
    abi: Annotated[str | None, typer.Option(help="ABIs in place of the machine's own: x86_64,ia32")] = None,
    target: Annotated[str | None, typer.Option(help="where: local or qemu-user")] = None,
    lasting: Annotated[str, typer.Option("--for", help="duration of each profile: 2s")] = "2s",
    by: Annotated[str, typer.Option(help="perf, the kernel's CPU clock where it is allowed; or signal")] = "perf",
    form: Annotated[str, typer.Option("--format", help="table or json")] = "table",
) -> int:
    """Profile a probe by function, or two probes side by side."""
    from tollmeter.library.profiling import points_of, take_all
    from tollmeter.targets.profiling_visit import Asked

    check_known("format", form, ("table", "json"))
    check_known("sampler", by, BY)
    took = seconds(lasting)
    if not LEAST_S <= took <= MOST_S:
        raise Failure(f"--for {lasting}: expected {LEAST_S:g} to {MOST_S:g} s")
    asked = Asked(round(1000 * took), by == "signal")
    profiles = take_all(points_of(words, names(abi), names(target)), asked)
    if form == "json":
        write(msgspec.json.format(msgspec.json.encode(profiles)) + b"\n")
    else:
        _print(profiles)
    return FAILED if all(profile_.reason for profile_ in profiles) else 0


def _print(profiles: list[Profile]) -> None:
    from rich.console import Console

    from tollmeter.report.profiles import alone, side_by_side
    from tollmeter.report.terminal_studies import blocks

    for profile in profiles:
        if profile.reason:
            print_notice(f"{profile.probe} {profile.abi}: no profile: {profile.reason}")
    with_functions = [profile for profile in profiles if not profile.reason]
    shown = (
        [side_by_side(with_functions[0], with_functions[1])]
        if len(with_functions) == 2
        else list(map(alone, with_functions))
    )
    blocks(shown, Console(highlight=False))
