# SPDX-License-Identifier: Apache-2.0
"""The columns of lmbench 3's summary, with the row of a run for each.

Titles, order and widths are from scripts/getsummary of 3.0-a9, which does not print lat_sem: its section is the last
here. docs/lmbench.md lists where a row differs from lmbench's measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

from tollmeter.inference.hierarchy import beyond_bytes
from tollmeter.model import Index, Level, Row, Value
from tollmeter.model.base import InferenceKind, StateName
from tollmeter.numbers.meanings import whole_number

Number = Callable[[Index], float | None]
_STATES: tuple[StateName | None, ...] = ("uncontended", "all", None)
"""States of the core in which rows are subtracted from each other, in order of preference."""


class SummaryColumn(NamedTuple):
    """A column of the summary, the mean of its numbers. whole: without a fraction. blanks: before it. always: every run
    has it, so that it alone does not make a section."""

    width: int
    numbers: tuple[Number, ...]
    whole: bool = False
    blanks: int = 1
    always: bool = False

    def value(self, index: Index) -> float | None:
        """Returns the mean of the numbers that exist."""
        values = [value for number in self.numbers if (value := number(index))]
        return mean(values) if values else None


class SummarySection(NamedTuple):
    """A section of the summary. head: the lines above the table."""

    head: str
    columns: tuple[SummaryColumn, ...]


class SummaryLine(NamedTuple):
    """One machine of the summary. numbers: by section and column."""

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
        """Returns the number. state: of the rows; by default their headline."""
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
        """Returns the row that was timed on this machine, of its own ABI if there is one."""
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
    """Returns an inferred property of the nearest level."""
    return lambda index: next(
        (inference.value for inference in index.inferred if inference.kind == kind and inference.value), None
    )


def us(probe: str, metric: str, *, less: RowMedian | None = None, **parameters: Value) -> RowMedian:
    return RowMedian(1e3, probe, metric, parameters, less=less)


def mb_of_largest(probe: str, metric: str, **parameters: Value) -> Number:
    """Returns the bandwidth at the largest size in megabytes (1e6) per second, as lmbench counts them."""
    return RowMedian(1e6, probe, metric, parameters, largest=True)


def operations(kind: str, *names: str, mode: str = "latency") -> tuple[Number, ...]:
    """Returns the numbers of an operation. lmbench's `bogo` is the throughput: its array elements do not depend on each
    other."""
    return tuple(
        RowMedian(1.0, "kernel.operations", "operation", {"type": kind, "op": name, "mode": mode}) for name in names
    )


def path_call(call: str) -> Number:
    """Returns the cost of a call on a regular file with a path of four names, as /usr/include/linux/types.h has."""
    return us("kernel.path_call", "call", call=call, components=4, files=1)


def select(kind: str) -> Number:
    """Returns the cost of select with all of 100 files ready, as in lmbench."""
    return us("kernel.select", "call", call="select_writable", files=100, kind=kind)


def switch(processes: int, kib: int) -> Number:
    """Returns the cost of a switch as lat_ctx defines it, including the refill of caches."""
    return us("kernel.switch_refill", "switch", processes=processes, footprint=kib << 10, rings=1)


def call(channel: str) -> Number:
    """Returns the cost of a call between processes on one CPU, where lmbench's processes mostly end up too."""
    return us("kernel.call_object", "round_trip", channel=channel, placement="one_cpu", address_space="other")


def library(channel: str) -> Number:
    return us("kernel.call_library", "round_trip", channel=channel, placement="one_cpu")


# ---- the sections -------------------------------------------------------------------------------------------------


def _section(head: str, *several: Number | SummaryColumn) -> SummarySection:
    """Returns a section. The last columns of the head's rule are as wide as their dashes. several: numbers, or columns
    with other properties than usual."""
    widths = [len(dashes) for dashes in head.splitlines()[-1].split()][-len(several) :]
    columns = (each if isinstance(each, SummaryColumn) else SummaryColumn(width, (each,))
               for width, each in zip(widths, several, strict=True))  # fmt: skip
    return SummarySection(head, tuple(columns))


_SENT = us("kernel.signal_self", "round_trip", step="send_nothing")
_CATCH = us("kernel.signal_self", "round_trip", step="deliver", less=_SENT)
"""Cost of lat_sig: a signal that is sent and handled, less signal 0, which is sent and has no effect."""
_MHZ = SummaryColumn(4, (mhz,), whole=True, always=True)
_INTEGERS = ("bit", "add", "multiply", "divide", "remainder")
_REALS = ("add", "multiply", "divide")

SECTIONS = (
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
        SummaryColumn(5, (_inferred("translations"),), whole=True),
        SummaryColumn(5, (_inferred("line"),), whole=True),
        parallel,
        SummaryColumn(4, (copies,), whole=True, always=True),
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
        us("kernel.enter_syscall", "round_trip", call="getppid"),
        SummaryColumn(4, tuple(us("kernel.file_call", "call", call=call) for call in ("read_zero", "write_null"))),
        *map(path_call, ("stat", "open_close")),
        select("tcp"),
        us("kernel.signal_self", "round_trip", step="install"),
        _CATCH,
        *(
            us("kernel.process_create", "life", how=how, footprint=0, placement="one_cpu")
            for how in ("fork", "fork_exec", "fork_shell")
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
        *operations("int32", *_INTEGERS),
    ),
    _section(
        """\

Basic uint64 operations - times in nanoseconds - smaller is better
------------------------------------------------------------------
Host                 OS int64  int64  int64  int64  int64  
                         bit    add    mul    div    mod   
--------- ------------- ------ ------ ------ ------ ------ 
""",  # noqa: W291  the blanks are lmbench's
        SummaryColumn(5, operations("int64", "bit"), blanks=2),
        *operations("int64", *_INTEGERS[1:]),
    ),
    _section(
        """\

Basic float operations - times in nanoseconds - smaller is better
-----------------------------------------------------------------
Host                 OS  float  float  float  float
                         add    mul    div    bogo
--------- ------------- ------ ------ ------ ------ 
""",  # noqa: W291  the blanks are lmbench's
        *operations("float", *_REALS),
        *operations("float", "bogo", mode="throughput"),
    ),
    _section(
        """\

Basic double operations - times in nanoseconds - smaller is better
------------------------------------------------------------------
Host                 OS  double double double double
                         add    mul    div    bogo
--------- ------------- ------  ------ ------ ------ 
""",  # noqa: W291  the blanks are lmbench's
        *operations("double", *_REALS),
        *operations("double", "bogo", mode="throughput"),
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
        *map(call, ("pipe", "unix_stream", "udp")),
        library("rpc_udp"),
        call("tcp"),
        library("rpc_tcp"),
        us("kernel.connect", "connection", route="tcp_lmbench", placement="one_cpu"),
    ),
    _section(
        """\

*Remote* Communication latencies in microseconds - smaller is better
---------------------------------------------------------------------
Host                 OS   UDP  RPC/  TCP   RPC/ TCP
                               UDP         TCP  conn
--------- ------------- ----- ----- ----- ----- ----
""",
        us("kernel.remote_call", "round_trip", route="udp"),
        us("kernel.remote_library", "round_trip", route="rpc_udp"),
        us("kernel.remote_call", "round_trip", route="tcp"),
        us("kernel.remote_library", "round_trip", route="rpc_tcp"),
        us("kernel.remote_call", "round_trip", route="connect"),
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
            us("kernel.disk_file", "file", act=act, size=size, medium="disk")
            for size in (0, 10240)
            for act in ("create", "delete")
        ),
        us("kernel.mapping", "map", act="lmbench", size=16 << 20),
        us("kernel.fault_segv", "round_trip", trap="protected_store", less=_CATCH),
        us("kernel.page_fault", "fault", kind="lmbench"),
        select("plain_file"),
    ),
    _section(
        """\

*Local* Communication bandwidths in MB/s - bigger is better
-----------------------------------------------------------------------------
Host                OS  Pipe AF    TCP  File   Mmap  Bcopy  Bcopy  Mem   Mem
                             UNIX      reread reread (libc) (hand) read write
--------- ------------- ---- ---- ---- ------ ------ ------ ------ ---- -----
""",
        *(
            RowMedian(
                1e6, "kernel.stream_bandwidth", "rate", {"route": route, "message": 65536, "placement": "one_cpu"}
            )
            for route in ("pipe", "unix_stream", "tcp")
        ),
        *(mb_of_largest("kernel.file_bandwidth", "rate", route=route) for route in ("read", "kept_map")),
        *(mb_of_largest("memory.copy_bandwidth", "copy", kernel=kernel) for kernel in ("libc", "portable")),
        *(mb_of_largest(f"memory.{act}_bandwidth", act, kernel="portable") for act in ("read", "write")),
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
        SummaryColumn(6, (latency_of("L1d"),)),
        SummaryColumn(6, (latency_of("L2"),)),
        # the default walk of lat_mem_rd
        SummaryColumn(6, (RowMedian(1.0, "memory.stride", "load", {"order": "forward", "stride": 128}, largest=True),)),
        SummaryColumn(11, (latency_of("memory"),)),
    ),
    _section(
        """\

Semaphore latency in microseconds, as lat_sem prints it - smaller is better
---------------------------------------------------------------------------
Host                 OS  lat_sem
--------- ------------- --------
""",
        us("kernel.semaphore", "pass", placement="one_cpu"),
    ),
)
DESCRIBED = SECTIONS[0]
"""The section whose lines describe the machine in words."""
