# SPDX-License-Identifier: Apache-2.0
"""lmbench's summary, filled from rows: its widths and cuts, and a word for each of its programs."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from tollmeter.catalog import read_suite
from tollmeter.model import Failure, Index, Row, State, Value
from tollmeter.report.lmbench import cut_number, lmbench_summary, read_result, result_text, warnings
from tollmeter.report.lmbench_table import SECTIONS
from tollmeter.toolchain.build import probe_names

ROOT = Path(__file__).resolve().parents[2]
# src/Makefile of lmbench 3.0-a9: EXES and OPT_EXES, less `hello`, which lat_proc starts; bw_udp and seek of its manual.
PROGRAMS = """
    bw_file_rd bw_mem bw_mmap_rd bw_pipe bw_tcp bw_unix lat_select lat_pipe lat_rpc lat_syscall lat_tcp lat_udp lat_mmap
    mhz lat_proc lat_pagefault lat_connect lat_fs lat_sig lat_mem_rd lat_ctx lat_sem memsize lat_unix lmdd timing_o
    enough msleep loop_o lat_fifo lmhttp lat_http lat_fcntl disk lat_unix_connect flushdisk lat_ops line tlb par_mem
    par_ops stream cache lat_dram_page lat_pmake lat_rand lat_usleep lat_cmd bw_udp seek
"""


def table() -> dict[str, tuple[str, str]]:
    """By program: its rows, and what is different."""
    page = (ROOT / "docs/lmbench.md").read_text(encoding="utf-8")
    return {one[0]: (one[1], one[2]) for one in re.findall(r"^\| `(\w+)` \| (.*?) \|(.*)\|$", page, re.MULTILINE)}


def test_every_program_has_a_row_or_a_sentence() -> None:
    told = table()
    assert set(told) == set(PROGRAMS.split())
    probes = probe_names(ROOT / "probes")
    for program, (rows, difference) in told.items():
        named = re.findall(r"`(\w+\.\w+)`", rows)
        assert set(named) <= probes, program
        assert named or len(difference.split()) > 3, f"{program} has neither a row nor a sentence"


@pytest.mark.parametrize(
    ("number", "width", "written"),
    [
        (0.1234567, 4, "0.12"), (0.1234567, 6, "0.1235"), (9.996, 4, "10.00"), (12.345, 4, "12.3"),
        (123.45, 4, "123."), (123.45, 6, " 123.5"), (9999.0, 4, "9999"), (12_345.0, 4, "12.K"),
        (123_456.0, 6, "123.5K"), (12_345_678.0, 6, " 12.3M"), (0.000123, 6, " 1e-04"),
    ],
)  # fmt: skip
def test_a_number_is_cut_as_lmbench_cuts_it(number: float, width: int, written: str) -> None:
    assert cut_number(number, width) == written


def row(probe: str, metric: str, median: float, **parameters: Value) -> Row:
    like = next(row for row in example_runs.small().index.rows if row.status == "ok")
    own = {"abi": example_runs.small().index.machine.architecture, "clock": "hardware", "median": median}
    return msgspec.structs.replace(like, probe=probe, metric=metric, parameters=parameters, **own)


def index(*rows: Row) -> Index:
    return msgspec.structs.replace(example_runs.small().index, rows=rows)


def lines(text: str, title: str) -> list[str]:
    return text[text.index(title) :].split("\n\n", 1)[0].splitlines()


def cells(text: str, title: str) -> dict[str, str]:
    """By its place, what stands in each column of a section; the two that name the machine left out."""
    *_, dashes, line = lines(text, title)
    found = [line[start:end].strip() for start, end in (match.span() for match in re.finditer("-+", dashes))]
    return {str(place): cell for place, cell in enumerate(found[2:]) if cell}


MIB = 1 << 20
OF_MEMORY = [
    ("memory.read_bandwidth", "read", {"kernel": "portable"}, "*Local* Communication bandwidths", "7"),
    ("memory.write_bandwidth", "write", {"kernel": "portable"}, "*Local* Communication bandwidths", "8"),
    ("memory.copy_bandwidth", "copy", {"kernel": "libc"}, "*Local* Communication bandwidths", "5"),
    ("kernel.file_bandwidth", "rate", {"route": "read"}, "*Local* Communication bandwidths", "3"),
    ("kernel.file_bandwidth", "rate", {"route": "kept_map"}, "*Local* Communication bandwidths", "4"),
    ("memory.stride", "load", {"order": "forward", "stride": 128}, "Memory latencies", "3"),
]


@pytest.mark.parametrize(("probe", "metric", "parameters", "title", "column"), OF_MEMORY)
def test_what_a_cache_holds_is_no_memory(
    probe: str, metric: str, parameters: dict[str, Value], title: str, column: str
) -> None:
    """16 KiB read from the first cache stood as `Mem read`. The last cache of this machine is said to have 32 MiB."""
    small, large = (row(probe, metric, median, **parameters, size=size)
                    for median, size in ((5e10, 32 * MIB), (2e10, 128 * MIB)))  # fmt: skip
    share = row(probe, "huge_pages", 0.9, **parameters, size=128 * MIB)
    flat = msgspec.structs.replace(index(), hierarchy=())
    assert title not in lmbench_summary(msgspec.structs.replace(flat, rows=(small, share)))
    assert column in cells(lmbench_summary(msgspec.structs.replace(flat, rows=(small, large))), title)


METRICS = ("call", "connection", "copy", "fault", "file", "hop", "life", "load", "map", "operation", "rate", "read",
           "pass", "round_trip", "switch", "write")  # fmt: skip
WHOLES = ({"step": "deliver"}, {"trap": "protected_store"})
"""Of which a column subtracts a part: each is more than the one before it."""


def rows_of_suite() -> list[Row]:
    """Of each point of the suite, whatever its metric is called; the last cache has 32 MiB."""
    sizes = {"4xLAST": 128 * MIB, "16MiB": 16 * MIB}
    like = row("", "", 1000.0)
    found = []
    for select in read_suite(ROOT / "suites/lmbench.toml").select:
        named = {
            name: value if isinstance(value, list | tuple) else [value] for name, value in select.parameters.items()
        }
        for values in product(*named.values()):
            point = {name: sizes.get(str(value), value) for name, value in zip(named, values, strict=True)}
            whole = next((2 + place for place, part in enumerate(WHOLES) if part.items() <= point.items()), 1)
            one = msgspec.structs.replace(like, probe=select.probe, parameters=point)
            found += [msgspec.structs.replace(one, metric=metric, median=1000.0 * whole) for metric in METRICS]
    return found


def full() -> Index:
    """A run of the suite; levels and what is inferred are the recorded run's."""
    told = index(*rows_of_suite())
    inferred = {"translations": 64.0, "line": 64.0}
    known = [msgspec.structs.replace(told.inferred[0], kind=kind, value=value) for kind, value in inferred.items()]
    return msgspec.structs.replace(told, inferred=tuple(known))


def columns(rows: list[Row], title: str) -> tuple[float | None, ...]:
    told = index(*rows)
    columns = next(columns for head, columns in SECTIONS.items() if title in head)
    return tuple(column.value(lambda number, _: number(told)) for column in columns)


def test_a_signal_caught_is_less_the_sending_and_a_fault_less_the_signal() -> None:
    """lat_sig subtracts both."""
    steps = {"deliver": 1900.0, "send_nothing": 300.0}
    rows = [row("kernel.signal_self", "round_trip", cost, step=step) for step, cost in steps.items()]
    fault = row("kernel.fault_segv", "round_trip", 2100.0, trap="protected_store")
    assert columns(rows, "Processor, Processes")[7] == pytest.approx(1.6)
    assert columns([*rows, fault], "File & VM")[5] == pytest.approx(0.5)
    assert columns([*rows[:1], fault], "File & VM")[5] is None


def test_like_states_are_subtracted() -> None:
    """The signal was seen too seldom on an uncontended core: over all samples it takes longer than the fault alone."""

    def seen(of: Row, **costs: float) -> Row:
        states = tuple(
            State(state=name, share=0.5, median=cost, low=cost, high=cost)  # type: ignore[arg-type]
            for name, cost in costs.items()
        )
        return msgspec.structs.replace(of, states=states, median=states[0].median)

    deliver = seen(row("kernel.signal_self", "round_trip", 0.0, step="deliver"), all=2900.0)
    nothing = seen(row("kernel.signal_self", "round_trip", 0.0, step="send_nothing"), all=400.0)
    fault = seen(row("kernel.fault_segv", "round_trip", 0.0, trap="protected_store"), whole=2100.0, all=3300.0)
    assert columns([deliver, nothing, fault], "File & VM")[5] == pytest.approx(0.8)


def test_a_level_that_was_not_resolved_is_blank() -> None:
    told = index(row("kernel.enter_syscall", "round_trip", 120.0, call="getppid"))
    assert {"1", "2", "4"} <= set(cells(lmbench_summary(told), "Memory latencies"))
    for unsure in ({"few_samples": 4}, {"not_apart_from": "L3"}):
        levels = tuple(msgspec.structs.replace(level, **unsure) for level in told.hierarchy)
        assert "Memory latencies" not in lmbench_summary(msgspec.structs.replace(told, hierarchy=levels))


def test_loads_at_once_are_those_from_memory() -> None:
    told = index(row("kernel.enter_syscall", "round_trip", 120.0, call="getppid"))
    assert "4" in cells(lmbench_summary(told), "Basic system parameters")
    near = msgspec.structs.replace(told, hierarchy=told.hierarchy[:2])
    assert "4" not in cells(lmbench_summary(near), "Basic system parameters")


def test_an_emulators_row_is_no_time() -> None:
    counted = msgspec.structs.replace(row("kernel.enter_syscall", "round_trip", 99.0, call="getppid"), clock="virtual")
    assert "Processor, Processes" not in lmbench_summary(index(counted))


def test_a_hostile_host_stays_in_its_column() -> None:
    told = index(row("kernel.enter_syscall", "round_trip", 120.0, call="getppid"))
    evil = msgspec.structs.replace(told.machine, host="\x1b[31mevil\nsecond", kernel="Linux \x07")
    assert "\x1b" not in (text := lmbench_summary(msgspec.structs.replace(told, machine=evil))) and "\x07" not in text


# ---- result files ---------------------------------------------------------------------------------------------------

RESULT = """\
[lmbench3.0 results for Linux elder 2.6.18-4 #1 SMP x86_64 GNU/Linux]
[LINE_SIZE: 64]
[MHZ: 2400 MHz, 0.4167 nanosec clock]
[SYNC_MAX: 1]
Simple syscall: 0.1100 microseconds
Simple write: 0.3000 microseconds
integer bit: 0.42 nanoseconds
integer bit parallelism: 3.00
Semaphore latency: 2.5000 microseconds

"File system latency
0k\t1000\t50000\t100000
1k\t1000\t40000\t90000
10k\t1000\t20000\t-1

"size=0k ovr=0.70
2 1.50
96 3.10

"size=16k ovr=1.20
8 2.25

Memory read bandwidth
0.000512 9000.00
8.388608 2500.00

Memory load latency
"stride=16
0.00098 1.000
8.00000 2.000

"stride=128
0.00098 1.250
0.12500 5.500
64.00000 88.000

Random load latency
"stride=16
0.00098 1.300
64.00000 120.500

UDP latency using far.example: 90.5 microseconds
"""


def result_file(folder: Path, text: str) -> Path:
    (folder / "linux-amd64").mkdir()
    file = folder / "linux-amd64/elder.0"
    file.write_text(text, encoding="utf-8")
    return file


def by_title(line: tuple[tuple[float | None, ...], ...]) -> dict[str, tuple[float | None, ...]]:
    return {head.strip().splitlines()[0]: one for head, one in zip(SECTIONS, line, strict=True)}


def test_a_result_file_of_lmbench_is_a_line_of_each_table(tmp_path: Path) -> None:
    read = read_result(result_file(tmp_path, RESULT))
    assert (read.host, read.system, read.description) == ("elder", "Linux 2.6.18-4", "linux-amd64")
    sections = {title.split(" - ")[0]: line for title, line in by_title(read.numbers).items()}
    assert sections["Basic system parameters"] == (2400, None, 64, None, 1)
    assert sections["Processor, Processes"][1:4] == (0.11, 0.3, None)
    assert sections["Basic integer operations"][:2] == (0.42, None)
    assert sections["File & VM system latencies in microseconds"][:4] == (20, 10, 50, None)
    assert sections["Context switching"] == (1.5, None, None, 2.25, None, None, None)
    assert sections["*Local* Communication bandwidths in MB/s"][7:] == (2500, None)
    assert sections["Memory latencies in nanoseconds"] == (2400, 1.25, 5.5, 88, 120.5)
    assert sections["*Remote* Communication latencies in microseconds"][0] == 90.5
    assert sections["Semaphore latency in microseconds, as lat_sem prints it"] == (2.5,)
    text = lmbench_summary(index(row("kernel.enter_syscall", "round_trip", 120.0, call="getppid")), [read])
    assert [line[:9].strip() for line in lines(text, "Processor, Processes")[-2:]] == [
        clean_host(), "elder"
    ]  # fmt: skip
    assert lines(text, "Basic integer")[-1].split()[:4] == ["elder", "Linux", "2.6.18-", "0.4200"]


def clean_host() -> str:
    return example_runs.small().index.machine.host[:9]


def test_without_memory_a_result_file_does_not_pass_a_cache_off_as_memory(tmp_path: Path) -> None:
    caches = msgspec.structs.replace(full(), rows=(), hierarchy=full().hierarchy[:2])
    read = read_result(result_file(tmp_path, result_text(caches)))
    _, first, second, memory, at_random = by_title(read.numbers)["Memory latencies in nanoseconds - smaller is better"]
    assert first and second and memory is None and at_random is None


def test_a_size_smaller_than_lmbench_s_is_warned_of_in_its_words() -> None:
    assert not list(warnings(RESULT))
    small = RESULT.replace("8.388608", "1.048576").replace("64.00000 88.000", "2.00000 88.000")
    assert list(warnings(small)) == [
        "using 1.048576 size for memory read & sum timing", "No 8MB memory latency, using 2.00000"
    ]  # fmt: skip


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"elder.*not an lmbench result file"):
        read_result(result_file(tmp_path, "cycles 1\n"))


# ---- lmbench's own program ------------------------------------------------------------------------------------------

RECORDED = ROOT / "tests/recordings/lmbench"


def all_different() -> Index:
    """Returns the run of the suite with another number in each row."""
    told = full()
    rows = (
        msgspec.structs.replace(
            row, median=(row.median or 0) * (1 + place / 1000) * (1e6 if "bandwidth" in row.probe else 1)
        )
        for place, row in enumerate(told.rows)
    )
    return msgspec.structs.replace(told, rows=tuple(rows))


def test_getsummary_of_lmbench_reads_what_a_run_is_written_as() -> None:
    """A changed suite or column needs a new recording: tests/recordings/README.md has the command."""
    assert (RECORDED / "amd64/here.0").read_text(encoding="utf-8") == result_text(all_different())


def test_the_summary_is_the_one_that_getsummary_prints() -> None:
    """Less the last digit of `TCP conn`: getsummary rounds to five characters, and cuts the fifth."""
    read = [read_result(RECORDED / f"amd64/{name}.0") for name in ("here", "elder")]
    theirs = (RECORDED / "summary.txt").read_text(encoding="utf-8").splitlines()
    ours = lmbench_summary(index(), read).splitlines()
    machines, own = ([line for line in text if line.startswith(("here ", "elder "))] for text in (theirs, ours))
    assert len(machines) == 21
    assert [line.replace("2.17", "2.16") for line in own[:21]] == machines
    assert [line for line in theirs[4:] if line and line not in machines and line not in ours] == []


def test_the_warnings_are_those_that_getsummary_writes() -> None:
    written = (RECORDED / "warnings.txt").read_text(encoding="utf-8").splitlines()
    asked = [f"amd64: {one}" for one in warnings((RECORDED / "amd64/here.0").read_text(encoding="utf-8"))]
    assert asked == [line for line in written if "lat_mem_rand" not in line] != []
