# SPDX-License-Identifier: Apache-2.0
"""The model's core in C, compiled when first asked for and called through ctypes; its structures, field by field."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
RUNTIME = HERE.parent.parent / "probes" / "runtime"
EMULATOR = HERE.parent.parent / "emulator"
SOURCES = (
    *sorted(HERE.glob("*.c")), *(EMULATOR / f"{name}.c" for name in ("cache", "reuse", "stack")), RUNTIME / "chase.c",
    RUNTIME / "random.c",
)  # fmt: skip
MOST_LEVELS, MOST_TLBS, REUSE_SIZES = 4, 2, 128

Numbers = NDArray[np.uint32]
Operations = NDArray[np.uint8]


class LevelShape(ctypes.Structure):
    _fields_ = [
        ("sets", ctypes.c_uint64),
        ("ways", ctypes.c_uint32),
        ("replacement", ctypes.c_uint32),
        ("write_through", ctypes.c_uint32),
        ("no_allocate", ctypes.c_uint32),
        ("misses", ctypes.c_uint32),
        ("victims", ctypes.c_uint32),
        ("latency", ctypes.c_double),
        ("transfer", ctypes.c_double),
        ("neighbours", ctypes.c_double),
    ]


class TlbShape(ctypes.Structure):
    _fields_ = [("sets", ctypes.c_uint32), ("ways", ctypes.c_uint32), ("miss", ctypes.c_double)]


class Shape(ctypes.Structure):
    _fields_ = [
        ("levels", ctypes.c_uint32),
        ("tlbs", ctypes.c_uint32),
        ("level", LevelShape * MOST_LEVELS),
        ("tlb", TlbShape * MOST_TLBS),
        ("memory_latency", ctypes.c_double),
        ("memory_transfer", ctypes.c_double),
        ("load_gap", ctypes.c_double),
        ("store_gap", ctypes.c_double),
        ("window", ctypes.c_uint32),
        ("store_buffer", ctypes.c_uint32),
        ("page_lines", ctypes.c_uint32),
        ("translation_pages", ctypes.c_uint32),
        ("prefetch_forward", ctypes.c_uint32),
        ("prefetch_backward", ctypes.c_uint32),
        ("prefetch_depth", ctypes.c_uint32),
        ("prefetch_reach", ctypes.c_uint32),
        ("prefetch_pairs", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    ]


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The compiled model. It needs a C compiler, as the probes do, and nothing else."""
    folder = tempfile.TemporaryDirectory(prefix="model-")
    target = Path(folder.name) / "model.so"
    compiler = os.environ.get("CC", "cc")
    flags = ["-std=gnu11", "-O3", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([compiler, *flags, "-o", str(target), *map(str, SOURCES)], check=True)
    made = ctypes.CDLL(str(target))
    folder.cleanup()
    _declare(made)
    return made


def _declare(made: ctypes.CDLL) -> None:
    numbers, bytes_of = ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint8)
    made.model_new.restype = ctypes.c_void_p
    made.model_new.argtypes = [ctypes.POINTER(Shape), numbers, ctypes.c_uint64]
    made.model_free.restype = None
    made.model_free.argtypes = [ctypes.c_void_p]
    made.model_run.restype = ctypes.c_double
    made.model_run.argtypes = [ctypes.c_void_p, numbers, bytes_of, ctypes.c_uint64]
    made.model_hits.restype = None
    made.model_hits.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
    made.model_translate.restype = ctypes.c_double
    made.model_translate.argtypes = [ctypes.POINTER(Shape), numbers, ctypes.c_uint64, ctypes.c_uint64]
    made.stream_distances.restype = ctypes.c_bool
    made.stream_distances.argtypes = [
        numbers, bytes_of, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_double)
    ]  # fmt: skip
    made.stream_chase.restype = ctypes.c_uint64
    made.stream_chase.argtypes = [
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_int,
        ctypes.c_uint64,
        numbers,
    ]


def distances(lines: Numbers, operations: Operations, settled: int, one_in: int) -> NDArray[np.float64]:
    """Of the operations from `settled` on: lines until a line is loaded again, and how many loads are foreseen, and how
    many are not, by the emulator's own code."""
    told = np.zeros((REUSE_SIZES, 3))
    at = told.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    codes = operations.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    assert library().stream_distances(pointer(lines), codes, len(lines), settled, one_in, at)
    return told[told[:, 1:].any(axis=1)]


def pointer(numbers: Numbers) -> ctypes._Pointer[ctypes.c_uint32]:
    assert numbers.dtype == np.uint32
    assert numbers.flags.c_contiguous
    return numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32))


class Packed(ctypes.Structure):
    """A question to the probe's own search for pages that fit together. The model fills in walk and machine."""

    _fields_ = [
        ("walk", ctypes.c_void_p),
        ("machine", ctypes.c_void_p),
        ("lines", ctypes.POINTER(ctypes.c_uint32)),
        *((name, ctypes.c_uint32) for name in ("candidates", "cell_lines", "second")),
        ("noise", ctypes.c_double),
        ("seed", ctypes.c_uint64),
    ]


def packed(lines: Numbers, cell_lines: int, *, second: bool, noise: float, seed: int) -> Packed:
    """lines: of all candidates, one after the other, which the caller keeps."""
    candidates = len(lines) // cell_lines
    return Packed(None, None, pointer(lines), candidates, cell_lines, second, noise, seed)


class Running:
    """One machine with its caches as the operations so far have left them. Frames: of each base page, in order."""

    def __init__(self, shape: Shape, frames: Numbers, seed: int = 1) -> None:
        self.frames = np.ascontiguousarray(frames, np.uint32)
        self.levels = int(shape.levels)
        self.handle = library().model_new(ctypes.byref(shape), pointer(self.frames), seed)
        assert self.handle, "no memory for the model"

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        library().model_free(self.handle)

    def run(self, lines: Numbers, operations: Operations | int) -> float:
        """Cycles until all operations are done. One operation stands for all lines."""
        if isinstance(operations, int):
            operations = np.full(len(lines), operations, np.uint8)
        assert len(lines) == len(operations)
        at = operations.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        return float(library().model_run(self.handle, pointer(np.ascontiguousarray(lines)), at, len(lines)))

    def hits(self) -> list[int]:
        """Look-ups that each level, then memory, has answered since the machine was made."""
        found = (ctypes.c_uint64 * (self.levels + 1))()
        library().model_hits(self.handle, found)
        return list(found)

    def packed(self, asked: Packed) -> int:
        """How many of the candidates fit into one of its caches together; 0 where that is not found."""
        return int(library().model_packed(ctypes.c_void_p(self.handle), asked))


def translation(shape: Shape, pages: Numbers, warm: int) -> float:
    """Cycles that translation adds to one load, in the mean over pages[warm:], met in that order."""
    count = len(pages) - warm
    return float(library().model_translate(ctypes.byref(shape), pointer(pages), warm, count)) / count
