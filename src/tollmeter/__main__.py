# SPDX-License-Identifier: Apache-2.0
"""Runs `toll` as `python -m tollmeter`."""

import gc
import sys

from tollmeter import starting
from tollmeter.exit_codes import INFRASTRUCTURE


def main() -> int:
    """Runs the command line and returns its exit code. Signals are blocked until their handlers are installed."""
    starting.hold_signals()
    starting.open_descriptors()
    starting.restore_environment()
    starting.name_system()
    if lacking := starting.make_room() or starting.read_clock():
        starting.complain(lacking)
        return INFRASTRUCTURE
    try:
        from tollmeter.cli.main import main as command
    except (ImportError, MemoryError, OSError) as error:
        starting.complain(f"it cannot be started: {error or 'there is not enough memory'}")
        return INFRASTRUCTURE
    code = command()
    # At its end, Python searches all objects for cycles: 0.1 s of CPU, or a second beside a dozen programs. DuckDB
    # needs this search, since it prints every object that is left.
    if "duckdb" not in sys.modules:
        gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
