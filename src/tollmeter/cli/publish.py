# SPDX-License-Identifier: Apache-2.0
"""`toll publish`: a run as one file without what names the machine's owner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tollmeter.library import places
from tollmeter.library.derive import open_run


def publish(
    run: Annotated[str, typer.Argument(help="a folder, a run's name, LAST or LAST~1")] = places.LAST,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="file to write")],
) -> None:
    """Write a run as one file without host name, users, paths and serial numbers, and list what is removed."""
    from tollmeter.library.publishing import publish as redacted
    from tollmeter.store.published import KEPT_PARTS, REMOVED_PARTS, write_published

    made = redacted(open_run(places.find_run(run)))
    for title, parts in (("Removed", REMOVED_PARTS), ("Kept", KEPT_PARTS)):
        print(f"{title}:")
        for part in parts:
            print(f"  {part}")
    write_published(made, out)
    print(f"{out}: {len(made.index.rows)} rows, {len(made.index.tolls)} tolls. Read it before you give it away.")
