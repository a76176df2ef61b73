# SPDX-License-Identifier: Apache-2.0
"""`toll gallery`: machines as a static site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def gallery(
    runs: Annotated[list[str], typer.Argument(help="files of `toll publish`, or runs, which are redacted first")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="folder of the site")],
) -> None:
    """Write a static site of machines: a list, a page for each, and any of them side by side."""
    from tollmeter.library.publishing import published
    from tollmeter.report.gallery import write_site

    machines = published(runs)
    write_site(machines, out)
    print(f"{out / 'index.html'}: {len(machines)} machines")
