# SPDX-License-Identifier: Apache-2.0
"""`toll serve`: the runs in a browser, until Ctrl-C."""

from __future__ import annotations

from typing import Annotated

import typer

MOST_PORTS = 65535


def serve(
    port: Annotated[int, typer.Option(min=0, max=MOST_PORTS, help="TCP port; 0 selects a free one")] = 0,
) -> None:
    """Show all runs in a local browser, and update a run in progress."""
    from tollmeter.library.serving import serve as served

    served(port, _print_address)


def _print_address(address: str) -> None:
    print(address, flush=True)
    print("Ctrl-C ends it. It is for browsers of this machine, and only reads.", flush=True)
