# SPDX-License-Identifier: Apache-2.0
"""Executables of one ABI as their differences from one of them, which a bundle's runner joins again
(probes/runtime/bundle/parts.c). Static executables hold the same C library at other addresses: a compressor finds its
code, but each reference from it to data differs in every executable, by the same few numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

REFERENCE, PARTS = "reference", "parts"
"""Files of an ABI's folder in a bundle that is a script: one executable as it is, and all others' differences."""
_FIELD_BYTES = 4
_ANCHOR_BYTES, _ANCHOR_STEP = 16, 4
_WINDOW_BYTES, _MOST_UNLIKE = 48, 24
"""A run ends where more bytes than this of a window differ."""
_STEP_BYTES = 1 << 16
_GUESSES_BITS = 15
_SPREAD = 2654435761

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

_Bytes = NDArray[np.uint8]
_Words = NDArray[np.uint64]


class _Run(NamedTuple):
    """Bytes from `start` on that are like those of the reference from `source` on."""

    start: int
    source: int
    length: int


class _Reference:
    """places: of all windows of 16 bytes, ordered by their hashes."""

    def __init__(self, content: bytes) -> None:
        self.content = np.frombuffer(content, np.uint8)
        hashes = _hashes(content)
        self._places = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._places]

    def has(self, hashes: _Words) -> NDArray[np.bool_]:
        """Which of these windows it has."""
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return np.equal(self._hashes[at], hashes)

    def nearest(self, found: np.uint64, wanted: int) -> int:
        """Of equal windows the one that is nearest to where it is expected."""
        first, end = (int(np.searchsorted(self._hashes, found, side=side)) for side in _SIDES)
        places = self._places[first:end]
        return int(places[np.argmin(np.abs(places - wanted))])


class _Streams(NamedTuple):
    """Of all executables, kind by kind, which a compressor finds more alike than one executable after another. runs:
    each executable's name, size and number of runs, and the runs; gaps: bytes between changed fields, or words between
    those that are not guessed; changes: of these; own: bytes that the reference does not have."""

    runs: bytearray
    gaps: bytearray
    changes: bytearray
    own: bytearray


def in_words(executable: bytes) -> bool:
    """Whether it consists of words of four bytes: of MIPS. Executables of x86 become larger where that is assumed."""
    machine_of_mips = 8
    return executable[18] == machine_of_mips


def parts_of(executables: Mapping[str, bytes]) -> dict[str, bytes]:
    """What stands for executables of one ABI: the largest as the reference, under a name of its own, and the parts:
    whether they are in words, the sizes of four streams, and these."""
    largest = max(executables, key=lambda name: len(executables[name]))
    reference = _Reference(executables[largest])
    streams = _Streams(*(bytearray() for _ in _Streams._fields))
    for name, content in executables.items():
        _add(streams, name, content, reference)
    sizes = b"".join(map(_number, (in_words(executables[largest]), *map(len, streams))))
    return {REFERENCE: executables[largest], PARTS: sizes + b"".join(streams)}


def _add(streams: _Streams, name: str, content: bytes, reference: _Reference) -> None:
    here = np.frombuffer(content, np.uint8)
    end = source_end = 0
    runs, guesses = list(_runs(content, reference)), _Guesses() if in_words(content) else None
    if guesses:
        runs = [run for each in runs if (run := _of_words(each)).length > 0]
    streams.runs.extend(_number(len(name)) + name.encode() + _number(len(content)) + _number(len(runs)))
    for run in runs:
        source = reference.content[run.source : run.source + run.length]
        length = run.length
        if guesses:
            guesses.add(here[run.start : run.start + length], source, streams)
        else:
            length = _changed(here[run.start : run.start + length], source, streams)
        step = run.source - source_end
        streams.runs.extend(_number(run.start - end) + _number(length))
        streams.runs.extend(_number(2 * step if step >= 0 else -2 * step - 1))
        streams.own.extend(content[end : run.start])
        end, source_end = run.start + length, run.source + length
    streams.own.extend(content[end:])


def _changed(here: _Bytes, source: _Bytes, streams: _Streams) -> int:
    """Appends the differences of a run's fields of four bytes, and the bytes before each. Returns the run's length: it
    ends before a difference that no whole field is left for."""
    at, length = 0, len(here)
    for place in np.flatnonzero(here != source).tolist():
        if place < at:
            continue
        if place > length - _FIELD_BYTES:
            length = place
            break
        now, then = (int.from_bytes(one[place : place + _FIELD_BYTES].tobytes(), "little") for one in (here, source))
        streams.gaps.extend(_number(place - at))
        streams.changes.extend(((now - then) % (1 << 32)).to_bytes(_FIELD_BYTES, "little"))
        at = place + _FIELD_BYTES
    streams.gaps.extend(_number(length - at))
    return length


def _of_words(run: _Run) -> _Run:
    """The whole words of a run."""
    head = -run.start % _FIELD_BYTES
    return _Run(run.start + head, run.source + head, (run.length - head) // _FIELD_BYTES * _FIELD_BYTES)


class _Guesses:
    """By how much each word of the reference changed where it last stood in this executable: an instruction that refers
    to a function or a datum changes alike wherever it is. The runner keeps the same table."""

    def __init__(self) -> None:
        self._words, self._changes = ([0] * (1 << _GUESSES_BITS) for _ in range(2))

    def add(self, here: _Bytes, source: _Bytes, streams: _Streams) -> None:
        """Appends what the changes of a run's words differ by from the guesses, and the words before each."""
        at = 0
        now, then = (np.frombuffer(one.tobytes(), "<u4").tolist() for one in (here, source))
        for place, word in enumerate(then):
            slot = word * _SPREAD % (1 << 32) >> 32 - _GUESSES_BITS
            change = (now[place] - word) % (1 << 32)
            guess = self._changes[slot] if self._words[slot] == word else 0
            if change != guess:
                self._words[slot], self._changes[slot] = word, change
                streams.gaps.extend(_number(place - at))
                streams.changes.extend(((change - guess) % (1 << 32)).to_bytes(_FIELD_BYTES, "little"))
                at = place + 1
        streams.gaps.extend(_number(len(then) - at))


def _runs(content: bytes, reference: _Reference) -> Iterator[_Run]:
    here = np.frombuffer(content, np.uint8)
    hashes = _hashes(content)
    anchors = _ANCHOR_STEP * np.flatnonzero(reference.has(hashes[::_ANCHOR_STEP]))
    at = shift = 0
    while (index := int(np.searchsorted(anchors, at))) < len(anchors):
        start = int(anchors[index])
        source = reference.nearest(hashes[start], start + shift)
        length = _alike(here[start:], reference.content[source:])
        before = _alike_before(here[at:start], reference.content[:source])
        yield _Run(start - before, source - before, length + before)
        at, shift = start + length, source - start


def _alike(here: _Bytes, source: _Bytes) -> int:
    """Bytes up to the first window in which too many differ."""
    room = min(len(here), len(source))
    for begin in range(0, room, _STEP_BYTES):
        step = slice(begin, min(begin + _STEP_BYTES, room))
        equal = here[step] == source[step]
        unlike = np.cumsum(~equal)
        unlike[_WINDOW_BYTES:] -= unlike[:-_WINDOW_BYTES].copy()
        ends = np.flatnonzero(unlike > _MOST_UNLIKE)
        if len(ends):
            alike = np.flatnonzero(equal[: max(int(ends[0]) - _WINDOW_BYTES, 0) + 1])
            return max(begin + (int(alike[-1]) + 1 if len(alike) else 0), _ANCHOR_BYTES)
    return room


def _alike_before(here: _Bytes, source: _Bytes) -> int:
    room = min(len(here), len(source), _STEP_BYTES)
    unlike = np.flatnonzero(here[len(here) - room :] != source[len(source) - room :])
    return room - 1 - int(unlike[-1]) if len(unlike) else room


def _hashes(content: bytes) -> _Words:
    """Of all windows of 16 bytes. Two that are equal need not be of equal windows: a run is compared byte by byte."""
    words = np.lib.stride_tricks.sliding_window_view(np.frombuffer(content, np.uint8), 8)
    several = np.ascontiguousarray(words).view(np.uint64).ravel()
    hashes: _Words = several[:-8] * np.uint64(0x9E3779B97F4A7C15) ^ several[8:] * np.uint64(0xC2B2AE3D27D4EB4F)
    return hashes


def _number(value: int) -> bytes:
    """Seven bits in a byte, the lowest first; the eighth bit says that more follow."""
    several = bytearray()
    while value > 0x7F:
        several.append(value & 0x7F | 0x80)
        value >>= 7
    several.append(value)
    return bytes(several)
