# SPDX-License-Identifier: Apache-2.0
"""Checks whether this CPU has the features that an ABI requires, by /proc/cpuinfo."""

from __future__ import annotations

import contextlib
import difflib
import re
from functools import lru_cache
from pathlib import Path

from tollmeter.model import Abi

_CPUINFO = Path("/proc/cpuinfo")
_LINE = re.compile(r"^(?:flags|[Ff]eatures|isa)[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_RISCV = re.compile(r"rv\d+([a-z]*)")

_X86_64_V2 = {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}
_X86_64_V3 = _X86_64_V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_LEVELS = {
    # System V ABI, AMD64 supplement, table 3.1; `pni` is SSE3, and `abm` has LZCNT.
    "x86-64-v2": _X86_64_V2,
    "x86-64-v3": _X86_64_V3,
    "x86-64-v4": _X86_64_V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    # RVA23U64: the extensions whose instructions a compiler chooses by itself and that Linux names.
    "rva23": {*"imafdcv", "zba", "zbb", "zbs", "zcb", "zfa", "zfhmin", "zicond", "zvbb", "zvfhmin"},
}
"""Names for sets of features, as Linux spells them."""


def features_in(cpuinfo: str) -> frozenset[str]:
    """Returns the features that all CPUs have; empty if none are listed. cpuinfo: text of /proc/cpuinfo. The first word
    of RISC-V's `isa` has one letter for each feature."""
    several = []
    for line in set(_LINE.findall(cpuinfo)):
        isa = _RISCV.match(line)
        several.append({*isa[1], *line.split("_")[1:]} if isa else {*line.split()})
    return frozenset(set.intersection(*several)) if several else frozenset()


@lru_cache(maxsize=1)
def _features_here() -> frozenset[str]:
    with contextlib.suppress(OSError):
        return features_in(_CPUINFO.read_text(encoding="utf-8", errors="replace"))
    return frozenset()


def cpu_lack(abi: Abi) -> str | None:
    """Returns a sentence on the features that this CPU lacks for an ABI; None if it lacks none, or if its features are
    unknown."""
    here = _features_here()
    for word in abi.requires if here else ():
        if lacking := sorted(_LEVELS.get(word, {word}) - here):
            near = difflib.get_close_matches(word, [*here, *_LEVELS], n=1, cutoff=0.8) if word not in _LEVELS else []
            named = f", which {word} includes" if word in _LEVELS else f"; it has {near[0]}" if near else ""
            return f"this CPU has no {', '.join(lacking)}{named}"
    return None
