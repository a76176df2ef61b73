# SPDX-License-Identifier: Apache-2.0
"""`toll bundle`: probes, plan and runner in one file, for a machine without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tollmeter.cli.printing import print_notice, write
from tollmeter.library.options import DEFAULT_BUDGET
from tollmeter.root import typed


def bundle(
    words: Annotated[list[str] | None, typer.Argument(help="suites, probes, globs, and NAME=VALUE")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="a script, or an archive: FILE.tar.xz, FILE.tar.gz")],
    abi: Annotated[list[str] | None, typer.Option(help="ABIs of the machines: aarch64,arm-soft [this CPU's]")] = None,
    budget: Annotated[str | None, typer.Option(help=f"wall time there: 30s, 2m [{DEFAULT_BUDGET}]")] = None,
    precision: Annotated[str | None, typer.Option(help="target half-width of each 95 % interval: 2% [3%]")] = None,
) -> None:
    """Write probes, plan and runner into one file, for a machine without Python."""
    from tollmeter.library.bundling import Asked, bundled

    made = bundled(Asked(tuple(words or ()), ",".join(abi) if abi else None, budget, precision), out)
    write(made.content, out)
    if made.is_script:
        out.chmod(0o755)
    held = ", ".join(f"{count} probes for {name}" for name, count in made.probes.items())
    print_notice(f"{out}: {len(made.content) / 1e6:.2f} MB; {held}")
    start = f"sh {out.name}" if made.is_script else f"tar xf {out.name}; sh {out.name.rpartition('.tar')[0]}/run.sh"
    print_notice(f"there: `{start}`; then here: `{typed('import', 'toll-run/journal.jsonl')}`")
