# SPDX-License-Identifier: Apache-2.0
"""The script that draws the page's charts: Vega, Vega-Lite and their expression interpreter, as vl-convert has them.

Making it starts a JavaScript engine of about 125 MB, so a child process does it, once for each version of vl-convert,
and the text is kept under build/. A page needs no more than the text: where vl-convert itself is not installed it is
fetched for that moment alone."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from tollmeter import commands
from tollmeter.extras import CHARTS, fetched, is_installed, version
from tollmeter.files import write_whole
from tollmeter.model import Failure
from tollmeter.notices import notify
from tollmeter.root import ROOT

MAKE = """
import sys
sys.path[:0] = sys.argv[1:]
import vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())
"""
LEAST_BYTES = 100_000
SECONDS = 120


def bundle(folder: Path = ROOT / "build") -> str:
    """The script's text, safe inside a <script> element. Raises Failure (5) where it cannot be made."""
    kept = folder / f"vega-{version(ROOT, CHARTS)}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = kept.read_text(encoding="utf-8")
        if len(text) > LEAST_BYTES:
            return text
    text = harmless(_made() if is_installed(CHARTS) else _made_in_passing())
    _keep(kept, text)
    return text


def harmless(script: str) -> str:
    """Breaks up what would end or change the script element; inside strings and patterns the meaning stays."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _made_in_passing() -> str:
    notify("fetching the script that draws the charts of a page, once: 34 MB, of which 1 MB stays")
    with tempfile.TemporaryDirectory() as scratch:
        return _made(str(fetched(ROOT, CHARTS, scratch)))


def _made(*folders: str) -> str:
    """folders: where vl-convert is, if not where other packages are."""
    try:
        done: commands.CompletedProcess[bytes] = commands.run(
            "checkout", [sys.executable, "-I", "-c", MAKE, *folders], capture_output=True, timeout=SECONDS, check=True,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, commands.SubprocessError) as error:
        raise Failure(f"the page's drawing script cannot be made: {error}", 5) from error
    return done.stdout.decode("utf-8")


def _keep(path: Path, text: str) -> None:
    """A copy for next time, put in place whole; where it cannot be kept it is made again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text.encode())


if __name__ == "__main__":
    bundle()
