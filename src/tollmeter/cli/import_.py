# SPDX-License-Identifier: Apache-2.0
"""`toll import`: a run from the journal that a bundle left, or from a capture of a serial line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tollmeter.cli.printing import print_notice
from tollmeter.root import typed


def import_(
    file: Annotated[Path, typer.Argument(help="journal.jsonl, its folder or archive, or a serial line's capture")],
    *,
    out: Annotated[Path | None, typer.Option(help="the run's folder [runs/DATE-SUITE]")] = None,
) -> None:
    """Create a run from what a bundle measured on another machine."""
    from tollmeter.library.importing import imported
    from tollmeter.library.places import shown

    made = imported(file, out)
    if made.lost:
        print_notice(f"{made.lost} streams of {file} were damaged, and are left out")
    folder = str(shown(made.folder))
    print(folder)
    print_notice(f"{made.visits} visits: `{typed('show', folder)}`, `{typed('report', folder)}`")
