# SPDX-License-Identifier: Apache-2.0
"""lmbench's summary of a run, and its result files: read, written, and compiled into a bundle's script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tollmeter.files import read_regular
from tollmeter.model import Failure, Index
from tollmeter.report.lmbench_table import (
    DESCRIBED,
    SECTIONS,
    Mean,
    Number,
    RowMedian,
    SummaryColumn,
    SummaryLine,
    SummarySection,
    parallel,
    size_of,
)
from tollmeter.report.text_layout import clean

_MOST_BYTES = 4 << 20
_LAST = "last"
_NAME = r"(?!localhost)\S+"


class ResultLine(NamedTuple):
    """Where a result file has a column's number: after `head`, or in the table below it, at `place` of the line `key`.
    what, least_mb: getsummary's warning if the last line's size is smaller. per_second: a rate in the file,
    microseconds in the summary."""

    head: str
    tail: str = " microseconds"
    key: str = ""
    place: int = 1
    what: str = ""
    least_mb: int = 4
    per_second: bool = False


_Result = ResultLine | tuple[ResultLine, ResultLine]


def _series(head: str, what: str) -> ResultLine:
    return ResultLine(head, "", _LAST, 1, what)


def _nanoseconds(kind: str, *names: str) -> tuple[ResultLine, ...]:
    return tuple(ResultLine(f"{kind} {name}:", " nanoseconds") for name in names)


def _switches(*pairs: tuple[int, int]) -> tuple[ResultLine, ...]:
    return tuple(ResultLine(f'"size={kib}k ovr=0.00', "", str(processes)) for processes, kib in pairs)


_MHZ = ResultLine("[MHZ:", " MHz]")
_INTEGERS, _REALS = ("bit", "add", "mul", "div", "mod"), ("add", "mul", "div", "bogomflops")
_FILES = '"File system latency'
_LATENCIES, _RANDOM = 'Memory load latency\n"stride=128', 'Random load latency\n"stride=16'
_RESULTS: tuple[tuple[_Result, ...], ...] = (
    (_MHZ, ResultLine("tlb:", " pages"), ResultLine("[LINE_SIZE:", "]"),
     _series("Memory load parallelism", "Memory load parallelism"), ResultLine("[SYNC_MAX:", "]")),
    (_MHZ, ResultLine("Simple syscall:"), (ResultLine("Simple read:"), ResultLine("Simple write:")),
     ResultLine("Simple stat:"), ResultLine("Simple open/close:"), ResultLine("Select on 100 tcp fd's:"),
     ResultLine("Signal handler installation:"), ResultLine("Signal handler overhead:"),
     ResultLine("Process fork+exit:"), ResultLine("Process fork+execve:"), ResultLine("Process fork+/bin/sh -c:")),
    _nanoseconds("integer", *_INTEGERS),
    _nanoseconds("uint64", *_INTEGERS),
    _nanoseconds("float", *_REALS),
    _nanoseconds("double", *_REALS),
    _switches((2, 0), (2, 16), (2, 64), (8, 16), (8, 64), (16, 16), (16, 64)),
    (*_switches((2, 0)), ResultLine("Pipe latency:"), ResultLine("AF_UNIX sock stream latency:"),
     ResultLine("UDP latency using localhost:"), ResultLine("RPC/udp latency using localhost:"),
     ResultLine("TCP latency using localhost:"), ResultLine("RPC/tcp latency using localhost:"),
     ResultLine("TCP/IP connection cost to localhost:")),
    tuple(ResultLine(f"{words} NAME:") for words in ("UDP latency using", "RPC/udp latency using", "TCP latency using",
                                                     "RPC/tcp latency using", "TCP/IP connection cost to")),
    (*(ResultLine(_FILES, "", size, place, per_second=True) for size in ("0k", "10k") for place in (2, 3)),
     _series('"mappings', "memory mapping timing"), ResultLine("Protection fault:"), ResultLine("Pagefaults on NAME:"),
     ResultLine("Select on 100 fd's:")),
    (ResultLine("Pipe bandwidth:", " MB/sec"), ResultLine("AF_UNIX sock stream bandwidth:", " MB/sec"),
     _series("Socket bandwidth using localhost", "Socket bandwidth using localhost"),
     _series('"read bandwidth', "reread timing"), _series('"Mmap read bandwidth', "mmap reread timing"),
     _series('"libc bcopy unaligned', "libc bcopy timing"),
     _series('"unrolled bcopy unaligned', "unrolled bcopy timing"),
     _series("Memory read bandwidth", "memory read & sum timing"),
     _series("Memory write bandwidth", "memory write timing")),
    (_MHZ, ResultLine(_LATENCIES, "", "0.00098"), ResultLine(_LATENCIES, "", "0.12500"),
     ResultLine(_LATENCIES, "", _LAST, 1, "memory latency", 8),
     ResultLine(_RANDOM, "", _LAST, 1, "random access memory latency", 8)),
    (ResultLine("Semaphore latency:"),),
)  # fmt: skip
"""By section and column of the summary; two lines of one column stand for their mean."""


# ---- written --------------------------------------------------------------------------------------------------------

_Values = dict[ResultLine, tuple[float, float]]
"""The number and, of the last line of a table, its size in MB."""


def result_text(index: Index) -> str:
    """The run as a result file of lmbench, as far as the summary has a column for it."""
    machine = index.machine
    system, release, *_ = [*machine.kernel.split(), "unknown", "unknown"]
    words = [system, machine.host.replace(" ", "-"), release, machine.architecture]
    text = [f"[lmbench3.0 results for {clean(' '.join(words))}]"]
    values = _values(index)
    for head in dict.fromkeys(line.head for line in values):
        lines = {line: value for line, value in values.items() if line.head == head}
        first = next(iter(lines))
        if not first.key:
            text.append(f"{head.replace('NAME', 'peer')} {lines[first][0]:.4f}{first.tail}")
        else:
            text += ["", head, *_table(lines), ""]
    return "\n".join(text) + "\n"


def _values(index: Index) -> _Values:
    values: _Values = {}
    for section, results in zip(SECTIONS, _RESULTS, strict=True):
        for column, result in zip(section.columns, results, strict=True):
            if isinstance(result, ResultLine):
                pairs = [(column.number, result)]
            else:
                assert isinstance(column.number, Mean)
                pairs = list(zip((column.number.first, column.number.second), result, strict=True))
            for number, line in pairs:
                if value := number(index):
                    unit = 1 << 20 if line.least_mb > 4 else 1e6  # lat_mem_rd counts in MiB, all else in megabytes
                    values[line] = (1e6 / value if line.per_second else value, _size_bytes(index, number) / unit)
    return values


def _size_bytes(index: Index, number: Number) -> int:
    if isinstance(number, RowMedian) and number.largest:
        row = number.row(index)
        return size_of(row) if row else 0
    if isinstance(number, RowMedian) and not number.parameters.keys().isdisjoint(("size", "message")):
        return int(number.parameters.get("size", number.parameters.get("message", 0)))
    probe = "memory.parallelism" if number is parallel else "memory.latency"
    return max((size_of(row) for row in index.rows if row.probe == probe and row.median), default=0)


def _table(lines: _Values) -> Iterator[str]:
    """getsummary takes the last line for memory, whatever its size: without memory, a line without a number is last."""
    last = None
    for key in dict.fromkeys(line.key for line in lines):
        of_key = {line.place: value for line, value in lines.items() if line.key == key}
        cells = [f"{of_key[place][0]:.4f}" if place in of_key else "-1" for place in range(1, max(of_key) + 1)]
        if key == _LAST:
            last = f"{of_key[1][1]:.5f} {cells[0]}"
        else:
            yield " ".join([key, *cells])
    if last or any(line.head == _LATENCIES for line in lines):
        yield last or "8.00000 -1"


# ---- read -----------------------------------------------------------------------------------------------------------


def read_result(path: Path) -> SummaryLine:
    """A result file as a line of the summary, named by file and folder as in getsummary. Raises Failure."""
    try:
        text = read_regular(path, _MOST_BYTES).decode(errors="replace")
    except OSError as error:
        raise Failure(f"{path} is not readable: {error.strerror or error}") from error
    heading = re.search(r"^\[lmbench\S* results for (\S+) \S+ ([^\s\]]+)", text, re.MULTILINE)
    if heading is None:
        raise Failure(f"{path} is not an lmbench result file: no line begins with '[lmbench3.0 results for'")
    numbers = tuple(tuple(_column_number(text, result) for result in results) for results in _RESULTS)
    host = re.sub(r"\.\d+$", "", path.name)
    return SummaryLine(host, " ".join(heading.groups()), path.resolve().parent.name, numbers)


def _column_number(text: str, result: _Result) -> float | None:
    lines = (result,) if isinstance(result, ResultLine) else result
    values = [value for line in lines if (value := _number(text, line))]
    return mean(values) if values else None


def _number(text: str, line: ResultLine) -> float | None:
    cells = _cells(text, line)
    if len(cells) <= line.place or not re.fullmatch(r"\d*\.?\d+", cells[line.place]):
        return None
    value = float(cells[line.place])
    return 1e6 / value if line.per_second and value else value


def _cells(text: str, line: ResultLine) -> list[str]:
    """The words of the number's line, from its key or size on."""
    lines = [re.escape(part).replace("NAME", _NAME).replace(r"0\.00", "") for part in line.head.split("\n")]
    head = r"^" + r".*\n(?:.*\n)*?".join(lines)
    if not line.key:
        match = re.search(rf"{head}\s*([\d.]+)", text, re.MULTILINE)
        return ["", match[1]] if match else []
    match = re.search(rf"{head}.*\n((?:\S.*\n)*)", text, re.MULTILINE)
    rows = [row.split() for row in match[1].splitlines()] if match else []
    chosen = [row for row in rows if (re.match(r"\d+\.", row[0]) if line.key == _LAST else row[0] == line.key)]
    return chosen[-1] if chosen else []


def warnings(text: str) -> Iterator[str]:
    """What getsummary says of a result file whose largest size is smaller than its columns mean."""
    for line in (line for results in _RESULTS for line in results if isinstance(line, ResultLine) and line.what):
        cells = _cells(text, line)
        if _number(text, line) and float(cells[0]) < line.least_mb:
            large = f"No {line.least_mb}MB {line.what}, using {cells[0]}"
            yield large if line.least_mb > 4 else f"using {cells[0]} size for {line.what}"


# ---- lmbench --------------------------------------------------------------------------------------------------------

_TITLE = """
                 L M B E N C H  3 . 0   S U M M A R Y
                 ------------------------------------
                 (columns of lmbench, a run of Tollmeter)

"""
_NOTHING = "No row of this run is what a column of lmbench means.\n"
_SHORTEST_HEAD = 6
"""Of a number with an exponent, all but its mantissa."""


def summary(index: Index, others: Sequence[SummaryLine] = ()) -> str:
    """A run, and below it in each table the result files of lmbench. A machine without a number of its own has no line,
    and a table without a machine is left out."""
    machine = index.machine
    own = tuple(tuple(column.number(index) for column in section.columns) for section in SECTIONS)
    lines = (SummaryLine(machine.host, " ".join(machine.kernel.split()[:2]), machine.cpu, own), *others)
    text = ""
    for place, section in enumerate(SECTIONS):
        columns = [column for column, facts in enumerate(section.columns) if not facts.always]
        shown = [line for line in lines if any(line.numbers[place][column] for column in columns)]
        text += section.head + "".join(_line(section, line, place) for line in shown) if shown else ""
    return _TITLE + (text or _NOTHING)


def _line(section: SummarySection, line: SummaryLine, place: int) -> str:
    cells = (_cell(column, number) for column, number in zip(section.columns, line.numbers[place], strict=True))
    described = f" {clean(line.description)[:23]:>23}" if section is DESCRIBED else ""
    return f"{clean(line.host)[:9]:<9} {clean(line.system)[:13]:>13}{described}{''.join(cells)}\n"


def _cell(column: SummaryColumn, number: float | None) -> str:
    text = "" if not number or number <= 0 else f"{number:.0f}" if column.whole else cut_number(number, column.width)
    return " " * column.blanks + f"{text:>{column.width}}"[: column.width]


def cut_number(number: float, width: int) -> str:
    """As lmbench's getsummary: K from ten thousand, M from ten million, cut to the column's width."""
    for unit, letter in ((1e6, "M"), (1e3, "K")):
        if number >= 10 * unit:
            return f"{f'{number / unit:.1f}'[: width - 1]:>{width - 1}}{letter}"
    if number >= 10:
        return f"{f'{number:.1f}'[:width]:>{width}}"
    if number < 1e-3:
        return f"{number:{width}.{max(0, width - _SHORTEST_HEAD)}e}"
    return f"{number:{width}.{width - 2}f}"
