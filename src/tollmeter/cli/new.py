# SPDX-License-Identifier: Apache-2.0
"""`toll new`: begin a file of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import print_notice
from tollmeter.library import places
from tollmeter.root import typed

WHAT = ("probe",)


def new(
    what: Annotated[str, typer.Argument(help="probe")],
    name: Annotated[str, typer.Argument(help="FAMILY.NAME, as in kernel.getrandom")],
) -> None:
    """Create the file of a new probe, which compiles and measures."""
    from tollmeter.library.new_probe import new_probe

    check_known("new thing", what, WHAT)
    print(places.shown(new_probe(places.ROOT, name)))
    next_step = f"measure it: `{typed('run', name)}`; format and check it: `make format lint`"
    print_notice(f"{next_step}; docs/add-a-probe.md describes how a probe is written")
