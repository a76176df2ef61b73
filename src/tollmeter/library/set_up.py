# SPDX-License-Identifier: Apache-2.0
"""Builds, compiles and fetches everything that later commands could need, so that other users may use a read-only
checkout. Run as `python -m tollmeter.library.set_up` by `./toll --set-up` and make."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import tollmeter
from tollmeter import commands, starting
from tollmeter.catalog import Catalog
from tollmeter.exit_codes import FAILED, INFRASTRUCTURE, INTERRUPTED
from tollmeter.extras import chart_script_made
from tollmeter.library import places, timed
from tollmeter.model import Failure
from tollmeter.notices import listen


def main(words: Sequence[str]) -> int:
    """Builds and fetches everything, and returns the exit status. words: "yes" for the tests, which need the libraries
    of single probes too."""
    listen(_message)
    try:
        with starting.hearing_signals():
            return _set_up("yes" in words)
    except Failure as failure:
        _message(failure.sentence)
        return failure.exit_code
    except KeyboardInterrupt:
        _message("interrupted")
        return INTERRUPTED
    except OSError as error:
        _message(f"{error.filename or places.ROOT / 'build'} cannot be written: {error.strerror or error}")
        return INFRASTRUCTURE


def _set_up(brings: bool) -> int:
    with chart_script_made() as script:
        for gap in places.ROOT.glob("build/*.gap"):
            gap.unlink()
        catalog = places.built(brings=brings)
        timed.executable(catalog)
        _compile()
        _report_broken(catalog, script)
    return FAILED if catalog.broken else 0


def _compile() -> None:
    """Compiles the sources to bytecode: a user with read access alone could not store it at the first import."""
    for module in pkgutil.walk_packages(tollmeter.__path__, "tollmeter."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _report_broken(catalog: Catalog, script: commands.Popen[bytes] | None) -> None:
    for (probe, abi), sentence in sorted(catalog.broken.items()):
        _message(f"left out {probe} for {abi}: {sentence}")
    if script and script.poll() is None:
        _message("waiting for the script that draws the charts of a page, which is fetched")
    if script and script.wait() != 0:
        _message("the script that draws the charts of a page cannot be fetched now: the first page tries again")
    _message(f"ready: {len(catalog.probes())} probes for {', '.join(catalog.abis)}")


def _message(sentence: str) -> None:
    print(f"toll: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    starting.hold_signals()
    sys.exit(main(sys.argv[1:]))
