# SPDX-License-Identifier: Apache-2.0
"""The columns of lmbench 3's summary, with the row of a run and the line of a result file for each.

Titles, order and widths are from scripts/getsummary of 3.0-a9, which does not print lat_sem: its section is the last
here. docs/lmbench.md lists where a row differs from lmbench's measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

from tollmeter.inference.hierarchy import beyond_bytes
from tollmeter.model import Index, Level, Row, Value
from tollmeter.model.base import InferenceKind, StateName
from tollmeter.numbers.meanings import whole_number

Number = Callable[[Index], float | None]
"""Returns a number of the summary from a run; None if the run has none."""
_STATES: tuple[StateName | None, ...] = ("uncontended", "all", None)
"""States of the core in which rows are subtracted from each other, in order of preference."""


class ResultLine(NamedTuple):
    """The position of a column's number in a result file: after `head`, or in the table below it, at `place` of the
    line `key`. what, least_mb: getsummary's warning if the last line's size is smaller. per_second: whether the file
    has a rate, and the summary microseconds."""

    head: str
    tail: str = " microseconds"
    key: str = ""
    place: int = 1
    what: str = ""
    least_mb: int = 4
    per_second: bool = False


Source = tuple[Number, ResultLine]
"""Where a number comes from: in a run, and in a result file."""


class SummaryColumn(NamedTuple):
    """A column of the summary, the mean of its numbers. whole: without a fraction. blanks: before it. always: every run
    has it, so that it alone does not make a section."""

    width: int
    sources: tuple[Source, ...]
    whole: bool = False
    blanks: int = 1
    always: bool = False

    def value(self, number_of: Callable[[Number, ResultLine], float | None]) -> float | None:
        """Returns the mean of the numbers that exist. number_of: returns the number of a source."""
        values = [value for source in self.sources if (value := number_of(*source))]
        return mean(values) if values else None


class SummaryLine(NamedTuple):
    """One machine of the summary. numbers: numbers by section and column."""

    host: str
    system: str
    description: str
    numbers: tuple[tuple[float | None, ...], ...]


# ---- where a number comes from ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowMedian:
    """The median of a row. largest: whether it is of the largest measured buffer; none if a cache may hold that buffer.
    less: a row that is subtracted in the first state that both have, since rows of contended and uncontended cores are
    not comparable; none if either is missing, or if the difference is within their noise."""

    unit: float
    probe: str
    metric: str
    parameters: dict[str, Value]
    largest: bool = False
    less: RowMedian | None = None

    def __call__(self, index: Index, state: StateName | None = None) -> float | None:
        """Returns the number. state: state of the rows; by default their headline."""
        if self.less is None:
            return self._median(index, state)
        for each in (state,) if state else _STATES:
            number, other = self._median(index, each), self.less(index, each)
            if number and other:
                return number - other if number > other else None
        return None

    def _median(self, index: Index, state: StateName | None) -> float | None:
        row = self.row(index)
        medians = [each.median for each in row.states if each.state == state] if row and state else []
        median = row.median if row and not state else next(iter(medians), None)
        return median / self.unit if median else None

    def row(self, index: Index) -> Row | None:
        """Returns the row timed by the hardware's clock: of the largest buffer if that is requested, else of this
        machine's own ABI; None without one."""
        least_bytes = beyond_bytes(index.machine) if self.largest else 0
        rows = [
            row
            for row in index.rows
            if row.probe == self.probe and row.metric == self.metric and row.median and row.clock == "hardware"
            and self.parameters.items() <= row.parameters.items() and whole_number(row, "size") >= least_bytes
        ]  # fmt: skip
        own = index.machine.architecture
        return max(
            rows, key=lambda row: (whole_number(row, "size") if self.largest else 0, row.abi == own), default=None
        )


def latency_of(name: str) -> Number:
    """Returns the latency in ns of a random load from a level, which waits for the previous load."""

    def of_level(index: Index) -> float | None:
        level = resolved_level(index, name)
        return level.latency_ns if level else None

    return of_level


def resolved_level(index: Index, name: str) -> Level | None:
    """Returns a level that is resolved from its neighbours, by enough visits for an interval; None without one."""
    levels = (level for level in index.hierarchy if not level.few_samples and not level.not_apart_from)
    return next((level for level in levels if level.level == name), None)


def parallel(index: Index) -> float | None:
    """Returns the parallelism of loads from memory."""
    memory = resolved_level(index, "memory")
    return memory.parallelism if memory else None


def mhz(index: Index) -> float | None:
    return index.machine.core_clock_hz / 1e6 if index.machine.core_clock_hz else None


def copies(index: Index) -> float | None:
    """Returns lmbench's number of parallel copies (-P), which is 1: a visit runs one copy at a time."""
    return 1.0 if index.rows else None


def _inferred(kind: InferenceKind) -> Number:
    """Returns the first inferred property of a kind that has a value."""
    return lambda index: next(
        (inference.value for inference in index.inferred if inference.kind == kind and inference.value), None
    )


def us(probe: str, metric: str, *, less: RowMedian | None = None, **parameters: Value) -> RowMedian:
    return RowMedian(1e3, probe, metric, parameters, less=less)


def mb_of_largest(probe: str, metric: str, **parameters: Value) -> Number:
    """Returns the bandwidth at the largest size in megabytes (1e6) per second, as lmbench counts them."""
    return RowMedian(1e6, probe, metric, parameters, largest=True)


def operations(kind: str, names: Mapping[str, str], head: str, mode: str = "latency") -> tuple[Source, ...]:
    """Returns the operations of a type. names: Tollmeter's name of each operation, by lmbench's name. lmbench's `bogo`
    is the throughput: its array elements do not depend on each other."""
    of_type = {"type": kind, "mode": mode}
    return tuple(
        (RowMedian(1.0, "kernel.operations", "operation", {**of_type, "op": own}),
         ResultLine(f"{head} {name}:", " nanoseconds"))
        for name, own in names.items()
    )  # fmt: skip


def path_call(call: str) -> Number:
    """Returns the cost of a call on a regular file with a path of four names, as /usr/include/linux/types.h has."""
    return us("kernel.path_call", "call", call=call, components=4, files=1)


def select(kind: str) -> Number:
    """Returns the cost of select with all of 100 files ready, as in lmbench."""
    return us("kernel.select", "call", call="select_writable", files=100, kind=kind)


def switch(processes: int, kib: int) -> Source:
    """Returns the cost of a switch as lat_ctx defines it, including the refill of caches."""
    cost = us("kernel.switch_refill", "switch", processes=processes, footprint=kib << 10, rings=1)
    return cost, ResultLine(f'"size={kib}k ovr=0.00', "", str(processes))


def call(channel: str) -> Number:
    """Returns the cost of a call between processes on one CPU, where lmbench's processes mostly end up too."""
    return us("kernel.call_object", "round_trip", channel=channel, placement="one_cpu", address_space="other")


def library(channel: str) -> Number:
    return us("kernel.call_library", "round_trip", channel=channel, placement="one_cpu")


def stream(route: str) -> Number:
    of_route: dict[str, Value] = {"route": route, "message": 65536, "placement": "one_cpu"}
    return RowMedian(1e6, "kernel.stream_bandwidth", "rate", of_route)


LAST = "last"
"""Key of the last line of a table, which is of its largest size."""


def _largest(head: str, what: str) -> ResultLine:
    return ResultLine(head, "", LAST, 1, what)


# ---- the sections -------------------------------------------------------------------------------------------------


def _section(head: str, *several: Source | SummaryColumn) -> tuple[str, tuple[SummaryColumn, ...]]:
    """Returns the lines above a table, and its columns. The last columns of the head's rule are as wide as their
    dashes. several: sources, or columns with other properties than usual."""
    widths = [len(dashes) for dashes in head.splitlines()[-1].split()][-len(several) :]
    columns = tuple(each if isinstance(each, SummaryColumn) else SummaryColumn(width, (each,))
               for width, each in zip(widths, several, strict=True))  # fmt: skip
    return head, columns


_SENT = us("kernel.signal_self", "round_trip", step="send_nothing")
_CATCH = us("kernel.signal_self", "round_trip", step="deliver", less=_SENT)
"""Cost of lat_sig: a signal that is sent and handled, less signal 0, which is sent and has no effect."""
_MHZ = SummaryColumn(4, ((mhz, ResultLine("[MHZ:", " MHz]")),), whole=True, always=True)
_INTEGERS = {"bit": "bit", "add": "add", "mul": "multiply", "div": "divide", "mod": "remainder"}
_REALS, _BOGO = {"add": "add", "mul": "multiply", "div": "divide"}, {"bogomflops": "bogo"}
_INT64 = operations("int64", _INTEGERS, "uint64")
_FILES = '"File system latency'
LATENCIES = 'Memory load latency\n"stride=128'
_RANDOM = ResultLine('Random load latency\n"stride=16', "", LAST, 1, "random access memory latency", 8)
_WALK = RowMedian(1.0, "memory.stride", "load", {"order": "forward", "stride": 128}, largest=True)
"""The default walk of lat_mem_rd."""

_SECTIONS = (
    _section(
        """\
Basic system parameters
------------------------------------------------------------------------------
Host                 OS Description              Mhz  tlb  cache  mem   scal
                                                     pages line   par   load
                                                           bytes  
--------- ------------- ----------------------- ---- ----- ----- ------ ----
""",  # noqa: W291  the blanks are lmbench's
        _MHZ,
        SummaryColumn(5, ((_inferred("translations"), ResultLine("tlb:", " pages")),), whole=True),
        SummaryColumn(5, ((_inferred("line"), ResultLine("[LINE_SIZE:", "]")),), whole=True),
        (parallel, _largest("Memory load parallelism", "Memory load parallelism")),
        SummaryColumn(4, ((copies, ResultLine("[SYNC_MAX:", "]")),), whole=True, always=True),
    ),
    _section(
        """\

Processor, Processes - times in microseconds - smaller is better
------------------------------------------------------------------------------
Host                 OS  Mhz null null      open slct sig  sig  fork exec sh  
                             call  I/O stat clos TCP  inst hndl proc proc proc
--------- ------------- ---- ---- ---- ---- ---- ---- ---- ---- ---- ---- ----
""",  # noqa: W291  the blanks are lmbench's
        _MHZ,
        (us("kernel.enter_syscall", "round_trip", call="getppid"), ResultLine("Simple syscall:")),
        SummaryColumn(
            4,
            tuple(
                (us("kernel.file_call", "call", call=own), ResultLine(f"Simple {name}:"))
                for name, own in (("read", "read_zero"), ("write", "write_null"))
            ),
        ),
        (path_call("stat"), ResultLine("Simple stat:")),
        (path_call("open_close"), ResultLine("Simple open/close:")),
        (select("tcp"), ResultLine("Select on 100 tcp fd's:")),
        (us("kernel.signal_self", "round_trip", step="install"), ResultLine("Signal handler installation:")),
        (_CATCH, ResultLine("Signal handler overhead:")),
        *(
            (
                us("kernel.process_create", "life", how=how, footprint=0, placement="one_cpu"),
                ResultLine(f"Process fork+{name}:"),
            )
            for name, how in (("exit", "fork"), ("execve", "fork_exec"), ("/bin/sh -c", "fork_shell"))
        ),
    ),
    _section(
        """\

Basic integer operations - times in nanoseconds - smaller is better
-------------------------------------------------------------------
Host                 OS  intgr intgr  intgr  intgr  intgr  
                          bit   add    mul    div    mod   
--------- ------------- ------ ------ ------ ------ ------ 
""",  # noqa: W291  the blanks are lmbench's
        *operations("int32", _INTEGERS, "integer"),
    ),
    _section(
        """\

Basic uint64 operations - times in nanoseconds - smaller is better
------------------------------------------------------------------
Host                 OS int64  int64  int64  int64  int64  
                         bit    add    mul    div    mod   
--------- ------------- ------ ------ ------ ------ ------ 
""",  # noqa: W291  the blanks are lmbench's
        SummaryColumn(5, _INT64[:1], blanks=2),
        *_INT64[1:],
    ),
    _section(
        """\

Basic float operations - times in nanoseconds - smaller is better
-----------------------------------------------------------------
Host                 OS  float  float  float  float
                         add    mul    div    bogo
--------- ------------- ------ ------ ------ ------ 
""",  # noqa: W291  the blanks are lmbench's
        *operations("float", _REALS, "float"),
        *operations("float", _BOGO, "float", mode="throughput"),
    ),
    _section(
        """\

Basic double operations - times in nanoseconds - smaller is better
------------------------------------------------------------------
Host                 OS  double double double double
                         add    mul    div    bogo
--------- ------------- ------  ------ ------ ------ 
""",  # noqa: W291  the blanks are lmbench's
        *operations("double", _REALS, "double"),
        *operations("double", _BOGO, "double", mode="throughput"),
    ),
    _section(
        """\

Context switching - times in microseconds - smaller is better
-------------------------------------------------------------------------
Host                 OS  2p/0K 2p/16K 2p/64K 8p/16K 8p/64K 16p/16K 16p/64K
                         ctxsw  ctxsw  ctxsw ctxsw  ctxsw   ctxsw   ctxsw
--------- ------------- ------ ------ ------ ------ ------ ------- -------
""",
        *(switch(*pair) for pair in ((2, 0), (2, 16), (2, 64), (8, 16), (8, 64), (16, 16), (16, 64))),
    ),
    _section(
        """\

*Local* Communication latencies in microseconds - smaller is better
---------------------------------------------------------------------
Host                 OS 2p/0K  Pipe AF     UDP  RPC/   TCP  RPC/ TCP
                        ctxsw       UNIX         UDP         TCP conn
--------- ------------- ----- ----- ---- ----- ----- ----- ----- ----
""",
        switch(2, 0),
        (call("pipe"), ResultLine("Pipe latency:")),
        (call("unix_stream"), ResultLine("AF_UNIX sock stream latency:")),
        (call("udp"), ResultLine("UDP latency using localhost:")),
        (library("rpc_udp"), ResultLine("RPC/udp latency using localhost:")),
        (call("tcp"), ResultLine("TCP latency using localhost:")),
        (library("rpc_tcp"), ResultLine("RPC/tcp latency using localhost:")),
        (
            us("kernel.connect", "connection", route="tcp_lmbench", placement="one_cpu"),
            ResultLine("TCP/IP connection cost to localhost:"),
        ),
    ),
    _section(
        """\

*Remote* Communication latencies in microseconds - smaller is better
---------------------------------------------------------------------
Host                 OS   UDP  RPC/  TCP   RPC/ TCP
                               UDP         TCP  conn
--------- ------------- ----- ----- ----- ----- ----
""",
        (us("kernel.remote_call", "round_trip", route="udp"), ResultLine("UDP latency using NAME:")),
        (us("kernel.remote_library", "round_trip", route="rpc_udp"), ResultLine("RPC/udp latency using NAME:")),
        (us("kernel.remote_call", "round_trip", route="tcp"), ResultLine("TCP latency using NAME:")),
        (us("kernel.remote_library", "round_trip", route="rpc_tcp"), ResultLine("RPC/tcp latency using NAME:")),
        (us("kernel.remote_call", "round_trip", route="connect"), ResultLine("TCP/IP connection cost to NAME:")),
    ),
    _section(
        """\

File & VM system latencies in microseconds - smaller is better
-------------------------------------------------------------------------------
Host                 OS   0K File      10K File     Mmap    Prot   Page   100fd
                        Create Delete Create Delete Latency Fault  Fault  selct
--------- ------------- ------ ------ ------ ------ ------- ----- ------- -----
""",
        *(
            (
                us("kernel.disk_file", "file", act=act, size=kib << 10, medium="disk"),
                ResultLine(_FILES, "", f"{kib}k", place, per_second=True),
            )
            for kib in (0, 10)
            for place, act in ((2, "create"), (3, "delete"))
        ),
        (us("kernel.mapping", "map", act="lmbench", size=16 << 20), _largest('"mappings', "memory mapping timing")),
        (
            us("kernel.fault_segv", "round_trip", trap="protected_store", less=_CATCH),
            ResultLine("Protection fault:"),
        ),
        (us("kernel.page_fault", "fault", kind="lmbench"), ResultLine("Pagefaults on NAME:")),
        (select("plain_file"), ResultLine("Select on 100 fd's:")),
    ),
    _section(
        """\

*Local* Communication bandwidths in MB/s - bigger is better
-----------------------------------------------------------------------------
Host                OS  Pipe AF    TCP  File   Mmap  Bcopy  Bcopy  Mem   Mem
                             UNIX      reread reread (libc) (hand) read write
--------- ------------- ---- ---- ---- ------ ------ ------ ------ ---- -----
""",
        (stream("pipe"), ResultLine("Pipe bandwidth:", " MB/sec")),
        (stream("unix_stream"), ResultLine("AF_UNIX sock stream bandwidth:", " MB/sec")),
        (stream("tcp"), _largest("Socket bandwidth using localhost", "Socket bandwidth using localhost")),
        (mb_of_largest("kernel.file_bandwidth", "rate", route="read"), _largest('"read bandwidth', "reread timing")),
        (
            mb_of_largest("kernel.file_bandwidth", "rate", route="kept_map"),
            _largest('"Mmap read bandwidth', "mmap reread timing"),
        ),
        *(
            (
                mb_of_largest("memory.copy_bandwidth", "copy", kernel=kernel),
                _largest(f'"{name} bcopy unaligned', f"{name} bcopy timing"),
            )
            for name, kernel in (("libc", "libc"), ("unrolled", "portable"))
        ),
        *(
            (
                mb_of_largest(f"memory.{act}_bandwidth", act, kernel="portable"),
                _largest(f"Memory {act} bandwidth", f"memory {what} timing"),
            )
            for act, what in (("read", "read & sum"), ("write", "write"))
        ),
    ),
    _section(
        """\

Memory latencies in nanoseconds - smaller is better
    (WARNING - may not be correct, check graphs)
------------------------------------------------------------------------------
Host                 OS   Mhz   L1 $   L2 $    Main mem    Rand mem    Guesses
--------- -------------   ---   ----   ----    --------    --------    -------
""",
        _MHZ._replace(blanks=2),
        SummaryColumn(6, ((latency_of("L1d"), ResultLine(LATENCIES, "", "0.00098")),)),
        SummaryColumn(6, ((latency_of("L2"), ResultLine(LATENCIES, "", "0.12500")),)),
        SummaryColumn(6, ((_WALK, ResultLine(LATENCIES, "", LAST, 1, "memory latency", 8)),)),
        SummaryColumn(11, ((latency_of("memory"), _RANDOM),)),
    ),
    _section(
        """\

Semaphore latency in microseconds, as lat_sem prints it - smaller is better
---------------------------------------------------------------------------
Host                 OS  lat_sem
--------- ------------- --------
""",
        (us("kernel.semaphore", "pass", placement="one_cpu"), ResultLine("Semaphore latency:")),
    ),
)
SECTIONS = dict(_SECTIONS)
"""Columns of each section of the summary, by the lines above its table. The lines of the first section describe the
machine in words."""
