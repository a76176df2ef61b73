# SPDX-License-Identifier: Apache-2.0
"""`python -m tollmeter.library.set_up`: builds the probes and tells of it on standard error. ./toll and make start
this; the command of a wheel does the same by itself.

Leaves build/gaps, one line for each ABI that cannot be built here, and build/stamp, which ./toll compares with the
sources: its first line is the CPU that the probes were built for.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence

from tollmeter.counting import Counting
from tollmeter.model import Failure
from tollmeter.root import ROOT
from tollmeter.toolchain import libraries
from tollmeter.toolchain.accepting import write
from tollmeter.toolchain.build import Gap, Made, build_all, for_cpu, read_abis

NOTHING_RAN, INTERRUPTED = 6, 130
_MOST_NAMED = 6


def main(words: Sequence[str]) -> int:
    """Returns the exit status. words: what ./toll is to do, "libraries" to bring all that single probes are built with
    first. Whoever only wants to measure goes on without a probe that does not build.
    """
    try:
        if "libraries" in words:
            _bring_libraries()
        made = build()
        if "set-up" in words and any(one.broken for one in made):
            return 1
    except Failure as failure:
        _say(failure.sentence)
        return failure.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _say(f"{error.filename or ROOT / 'build'} cannot be written: {error.strerror or error}")
        return 5
    return 0


def once() -> None:
    """Builds what is stale, if another process doesn't. Raises Failure."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build/lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not is_fresh():
            _say("building the probes, once")
            build()


def is_fresh() -> bool:
    """As ./toll sees it: nothing is younger than the stamp, which is this CPU's."""
    stamp = ROOT / "build/stamp"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8").strip() != platform.machine():
        return False
    sources = [path for name in ("Makefile", "abis", "probes") for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    sources += libraries.changes(ROOT)
    return all(path.stat().st_mtime <= stamp.stat().st_mtime for path in sources)


def build() -> list[Made]:
    """Builds what can be built here, and tells of it. Raises Failure."""
    started = time.monotonic()
    begun = time.time()
    with Counting("files made") as count:
        made, gaps = build_all(ROOT, platform.machine(), count)
    if not made:
        raise Failure(f"no ABI can be built here: {'; '.join(map(_sentence, gaps))}", NOTHING_RAN)
    _leave(gaps, begun)
    _tell(made, gaps, time.monotonic() - started)
    return made


def _bring_libraries() -> None:
    """Those of this CPU's ABIs. What cannot be had is said, and its probes say it again."""
    here = [abi.name for abi in for_cpu(read_abis(ROOT / "abis").values(), platform.machine())]
    for name in libraries.missing(ROOT, libraries.known(ROOT), here):
        bring(name, _say)


def bring(name: str, tell: Callable[[str], None]) -> None:
    """A library of probes/libraries.toml, or the sentence that tells why not."""
    library = libraries.known(ROOT)[name]
    tell(f"bringing {library.summary}, once")
    try:
        libraries.bring(ROOT, name, library)
    except Failure as failure:
        tell(failure.sentence)


def _leave(gaps: list[Gap], begun: float) -> None:
    write(ROOT / "build/gaps", "".join(f"{_sentence(gap)}\n" for gap in gaps).encode())
    # A source saved while the build ran is younger than the stamp, and so built the next time. Of a file that another
    # user made, nobody else may set the time, even where all may write to it.
    half = ROOT / "build/stamp.half"
    half.unlink(missing_ok=True)
    half.write_text(f"{platform.machine()}\n", encoding="utf-8")
    os.utime(half, (begun, begun))
    half.replace(ROOT / "build/stamp")


def _tell(made: list[Made], gaps: list[Gap], seconds: float) -> None:
    for gap in gaps:
        _say(f"left out {_sentence(gap)}")
    for one in made:
        for probe, sentence in one.broken.items():
            _say(f"left out {probe} for {one.abi}: {sentence}")
    _say(f"{built(made)}: {seconds:.0f} s")


def built(made: Sequence[Made]) -> str:
    """What was built, as a sentence: all of it, or what of it is new."""
    abis = ", ".join(one.abi if one.runs else f"{one.abi} (not run by this kernel)" for one in made)
    anew = dict.fromkeys(probe for one in made for probe in one.anew)
    if not anew:
        return f"no probe was built anew of {made[0].probes} for {abis}"
    if len(anew) == max(one.probes for one in made):
        return f"built {made[0].probes} probes for {abis}"
    few = f" ({', '.join(anew)})" if len(anew) <= _MOST_NAMED else ""
    return (
        f"built {len(anew)} of {made[0].probes} probes anew{few} for {', '.join(one.abi for one in made if one.anew)}"
    )


def _sentence(gap: Gap) -> str:
    return f"{gap.abi} ({gap.reason}): {gap.mend}"


def _say(sentence: str) -> None:
    print(f"toll: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
