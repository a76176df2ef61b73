# SPDX-License-Identifier: Apache-2.0
"""The kernel's tolls: every point has a number or a sentence, parameters move it, and no check can be fooled."""

from __future__ import annotations

import itertools
import os
import platform
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from probes import visiting
from probes.visiting import (
    COUNTED,
    all_points,
    build_broken,
    control_cost,
    cost,
    describe,
    executable,
    in_turns,
    visit,
    visits,
)
from support.waiting import LONG_S, in_time
from tollmeter.model import Abi, Outcome
from tollmeter.protocol import outcome
from tollmeter.toolchain.disassemble import instructions

PROBES = (
    "loop",
    "enter_syscall",
    "enter_gate",
    "clock_read",
    "function_call",
    "fault_segv",
    "fault_trap",
    "page_fault",
    "process_create",
    "signal_self",
    "enter_checked",
    "guest_exit",
    "speculation",
    "supervise_call",
    "supervise_fault",
    "file_call",
    "path_call",
    "list_folder",
    "file_bandwidth",
    "mapping",
    "page_release",
    "scaling",
    "process_end",
    "exec_program",
    "select",
    "operations",
    "connect",
    "http_fetch",
    "random",
    "jobs",
    "disk_file",
    "disk",
    "disk_queue",
    "remote_call",
    "remote_bandwidth",
    "io_ring",
    "hook",
    "bpf_map",
    "futex_wait",
    "huge_page",
    "swap_in",
)
X86 = platform.machine() in ("x86_64", "i686")
# many<uint64_t, Add>, as its ABI writes that
ADDITIONS = "_ZN12_GLOBAL__N_14manyImNS_3AddEEET_NS_8OperandsIS2_EEm"
TWO_CPUS = len(os.sched_getaffinity(0)) >= 2
TREES = ("files", "entries")
"""Parameters that say how many files are made."""

# A file, what is wrong with it, and where that shows.
BREAKS = (
    ("kernel/loop.c", "while (--left);", "while (--left > 5);", {}),
    (
        "kernel/enter_syscall.c",
        "answer = kernel_enter(number, 0, 0);",
        "answer = kernel_enter(number, 0, 0) - 1;",
        {},
    ),
    (
        "kernel/enter_gate.c",
        "answer = kernel_enter(SYS_getppid, 0, 0);",
        "answer = 1 + kernel_enter(SYS_getppid, 0, 0);",
        {},
    ),
    ("kernel/clock_read.c", "now_ns = by_system_call();", "now_ns = by_system_call() / 3;", {}),
    (
        "kernel/speculation.c",
        "hops->answer = kernel_enter(SYS_getppid, 0, 0);",
        "hops->answer = 1 + kernel_enter(SYS_getppid, 0, 0);",
        {},
    ),
    (
        "kernel/speculation.c",
        "if (prctl(PR_SET_SPECULATION_CTRL, requests[what].feature, requests[what].wanted, 0, 0) == 0)",
        "if (requests[what].wanted)",
        {"speculation": "l1d_flushed"},
    ),
    ("kernel/guest_exit.c", '"+c"(c), "=d"(d));\n  return b;', '"+c"(c), "=d"(d));\n  return d;', {"kind": "cpuid"}),
    ("kernel/function_call.c", "return value + 1;", "return value + (value & 1);", {}),
    ("kernel/fault_segv.c", "i; i--) trap_store(address);", "i > 1; i -= 2) trap_store(address);", {}),
    (
        "kernel/fault_trap.c",
        "for (; i; i--) trap_breakpoint();",
        "for (; i > 1; i--) trap_breakpoint();",
        {"trap": "breakpoint"},
    ),
    (
        "kernel/page_fault.c",
        "region->start, bytes_of(faults, region), MADV_DONTNEED);",
        "region->start, bytes_of(faults, region), MADV_NORMAL);",
        {},
    ),
    ("kernel/switch.c", "i += ring->line) (*(volatile", "i += 2 * ring->line) (*(volatile", {"footprint": 4096}),
    ("kernel/switch_refill.c", "i; i--, word", "i > 1; i--, word", {"footprint": 16384}),
    (
        "kernel/call_object.c",
        "send(&call->channel, OWNER, question | yes);",
        "send(&call->channel, OWNER, question | !yes);",
        {"channel": "pipe"},
    ),
    (
        "kernel/semaphore.c",
        "for (uint64_t i = r->iterations; i; i--, token",
        "for (uint64_t i = r->iterations; i > 1; i--, token",
        {},
    ),
    (
        "kernel/process_create.c",
        "if (child == 0) _exit(CHILD_STATUS);",
        "if (child == 0) _exit(CHILD_STATUS + 1);",
        {"how": "fork"},
    ),
    (
        "kernel/signal_self.c",
        "sent->refused += !send_to(process, thread, sent_number);",
        "i -= i > 1 && send_to(process, thread, sent_number);",
        {},
    ),
    ("kernel/enter_checked.c", "entry->answer = answer;", "entry->answer = answer + 1;", {"check": "refused"}),
    ("kernel/supervise_call.c", ".val = OWN_ANSWER}", ".val = OWN_ANSWER + 1}", {"by": "user_notification"}),
    ("kernel/supervise_fault.c", "pager.served++;", "pager.served += 2;", {"by": "signal"}),
    ("kernel/supervise_fault.c", "      paged->served++;", "      paged->served += 2;", {"by": "userfault_move"}),
    (
        "kernel/supervise_fault.c",
        ".src = (uintptr_t)pager.source,",
        ".src = (uintptr_t)pager.source + 1,",
        {"by": "userfault_copy"},
    ),
    (
        "kernel/wake.c",
        "static const struct toll_role roles[]",
        """static void lose(struct toll_run *r) {
  bell_ring(r);
  ((struct bell *)r->state)->rung++;
}
#define bell_ring lose
static const struct toll_role roles[]""",
        {"idle": 50},
    ),
    ("kernel/wake_spinning.c", "bell_ring(r);", "bell_ring(r);\n  beside->bell.rung++;", {"idle": 50}),
    ("kernel/hidden_gaps.c", "gaps->looked += now >= last;", "gaps->looked += now > last && i > 1;", {}),
    ("memory/each_cpu.c", "own->sum[0] = sum;", "own->sum[0] = sum + addend;", {"loop": "clock"}),
    ("memory/each_cpu.c", "i < COPY_WORDS; i++) to[i]", "i < COPY_WORDS - 1; i++) to[i]", {"loop": "copy"}),
    ("memory/each_cpu.c", "r->iterations * NEAR_LOADS)", "r->iterations)", {"loop": "second_cache"}),
    ("memory/loaded_latency.c", "++part->bursts", "(part->bursts += 2)", {"size": 4 << 20}),
    ("memory/loaded_latency.c", "part->at, l->line, l->mix", "part->at, l->line, NON_TEMPORAL", {"mix": "1:3"}),
    ("memory/numa_bandwidth.c", "++part->bursts", "(part->bursts += 2)", {"size": 4 << 20}),
    (
        "memory/scaling.c",
        "traffic_burst(at, stride, TWO_TO_ONE, 0)",
        "traffic_burst(at, stride, ONE_TO_ONE, 0)",
        {"operation": "2:1", "size": 1 << 20},
    ),
    ("memory/clock_of_cpus.c", "chain_add(chain, r->iterations);", "chain_add(chain, r->iterations / 2);", {}),
    (
        "kernel/timer.c",
        "const uint64_t now = toll_moment_ns(), late",
        "const uint64_t now = timer->next_ns - 1, late",
        {},
    ),
    (
        "kernel/file_call.c",
        "read(file->zero, file->buffer, 1) == 1",
        "read(file->zero, file->buffer, 1) == (file->done ? 2 : 1)",
        {"call": "read_zero"},
    ),
    ("kernel/path_call.c", "S_ISREG(status.st_mode)", "S_ISDIR(status.st_mode)", {"call": "stat"}),
    ("kernel/list_folder.c", "lseek(listing->folder, 0", "lseek(listing->folder, 1", {"entries": 16}),
    (
        "kernel/mapping.c",
        "return start == MAP_FAILED ? NULL : start;",
        "return start == MAP_FAILED ? NULL : NULL;",
        {"act": "map"},
    ),
    ("kernel/mapping.c", "i += step)", "i += 2 * step)", {"act": "lmbench", "size": str(1 << 20)}),
    ("kernel/page_release.c", "munmap(memory, release->bytes) != 0; break;", "munmap(memory, 0) != 0; break;", {}),
    ("kernel/page_release.c", "start[i] = 1;", "start[i] = MARK;", {"act": "copy"}),
    ("kernel/scaling.c", "own->parent = getppid();", "own->parent = own->parent;", {"of": "getppid"}),
    ("kernel/scaling.c", "start[at] = 1;", "start[0] = 1;", {"of": "page_fault"}),
    ("kernel/scaling.c", "munmap(start, own->region_bytes)", "munmap(start + 1, own->region_bytes)", {"of": "map"}),
    ("kernel/scaling.c", "copy >= 0 && close(copy)", "copy >= 0 && close(copy + 1)", {"of": "dup"}),
    ("kernel/scaling.c", "S_ISREG(status.st_mode)", "S_ISDIR(status.st_mode)", {"of": "stat_own"}),
    ("kernel/scaling.c", "read(own->file, &got, 1)", "read(own->file, &got, 0)", {"of": "pipe"}),
    ("kernel/scaling.c", "_exit(CHILD_STATUS);", "_exit(0);", {"of": "fork"}),
    ("kernel/scaling.c", "i; i--) done += once(own);", "i > 1; i--) done += once(own);", {"of": "yield"}),
    (
        "kernel/process_end.c",
        "read(channel, &byte, 1) != 0) _exit(1);",
        "read(channel, &byte, 1) != 0) _exit(7);\n  _exit(1);",
        {},
    ),
    ("kernel/exec_program.c", "_exit(left ? 1 : CHILD_STATUS);", "_exit(left ? 1 : CHILD_STATUS + !left);", {}),
    (
        "kernel/select.c",
        "FD_ISSET(last, &ready);",
        "FD_ISSET(last - 1, &ready);",
        {"call": "select"},
    ),
    ("kernel/select.c", "(int)watched->asked_files;", "(int)watched->files;", {"call": "select_writable"}),
    (
        "kernel/stream_bandwidth.c",
        "done += (size_t)took;",
        "done += (size_t)took, stream->received[0] ^= 1;",
        {"message": 1024},
    ),
    (
        "kernel/datagram_bandwidth.c",
        "memcpy(&burst, all->received, sizeof burst);",
        "memcpy(&burst, all->received, sizeof burst), all->received[20] ^= 1;",
        {"message": 1024},
    ),
    ("kernel/file_bandwidth.c", "sum[3] += words[i + 3];", "sum[3] += words[i + 2];", {"route": "kept_map"}),
    ("kernel/connect.c", "close(taken) == 0 : reset(taken));", "close(taken) == 0 : reset(taken)) && i > 1;", {}),
    ("kernel/http_fetch.c", "page_fill(web->served, LARGEST_PAGE);", "page_fill(web->served, 1000);", {"size": 1024}),
    (
        "kernel/random.c",
        "for (; count; count--) sum += (uint64_t)lrand48();",
        "for (; count > 1; count--) sum += (uint64_t)lrand48();",
        {"generator": "lrand48"},
    ),
    ("kernel/jobs.c", "jobs->ended += ended_well(started[i]);", "jobs->ended += ended_well(started[0]);", {"jobs": 2}),
    (
        "kernel/disk_file.c",
        "return unlinkat(files->place, name, 0) == 0;",
        "return files->place < 0 && *name;",
        {"medium": "memory"},
    ),
    (
        "kernel/disk.c",
        "offset_of(blocks, block)) == (ssize_t)blocks->bytes;\n}\n\nstatic bool read",
        "offset_of(blocks, block / 2)) == (ssize_t)blocks->bytes;\n}\n\nstatic bool read",
        {"act": "write"},
    ),
    ("kernel/disk_queue.c", "offset_of(&q->blocks, block)", "offset_of(&q->blocks, block / 2)", {"act": "read"}),
    (
        "kernel/io_ring.c",
        "if (q->operation == NOP) continue;",
        "if (q->operation == NOP) {\n      request->user_data = q->asked;\n      continue;\n    }",
        {"depth": 8, "operation": "nop"},
    ),
    (
        "kernel/io_ring.c",
        "(uintptr_t)(q->buffers + k * PAGE);",
        "(uintptr_t)q->buffers;",
        {"depth": 8, "operation": "read_fixed"},
    ),
    (
        "kernel/io_ring.c",
        "pread(q->file, q->buffers + k * PAGE,",
        "pread(q->file, q->buffers,",
        {"depth": 8, "operation": "pread"},
    ),
    ("kernel/futex_wait.c", "i; i--) expect(", "i > 1; i--) expect(", {"act": "refused"}),
    (
        "kernel/futex_wait.c",
        "expect(waits, by == (long)next);",
        "expect(waits, by == 0);",
        {"act": "woken", "futexes": 8},
    ),
    ("kernel/huge_page.c", "huge->bytes, MADV_COLLAPSE", "huge->bytes, MADV_NORMAL", {"act": "collapse"}),
    ("kernel/huge_page.c", "small, PROT_READ);", "small, PROT_READ | PROT_WRITE);", {"act": "protect"}),
    ("kernel/swap_in.c", "swapped->page, MADV_PAGEOUT)", "swapped->page, MADV_NORMAL)", {"swap": "zram"}),
    ("kernel/hook.c", "with_value(&code, BPF_ADD, R1, 1);", "with_value(&code, BPF_ADD, R1, 0);", {"hook": "uprobe"}),
    ("kernel/bpf_map.c", "place < KEYS; place++) write", "place < KEYS - 1; place++) write", {"from": "program"}),
    ("kernel/bpf_map.c", "uint64_t value = value_of(key);", "uint64_t value = 0;", {"from": "call", "op": "update"}),
    ("kernel/operations.cc", "for (int i = 0; i < UNROLL; i++) {", "for (int i = 1; i < UNROLL; i++) {", {}),
)


@pytest.mark.parametrize(("name", "where"), [(name, where) for name, _, _, where in BREAKS])
def test_a_broken_probe_has_no_number(broken: Path, own_abi_name: str, name: str, where: dict[str, str]) -> None:
    probe = name.rpartition(".")[0].replace("/", ".")
    done = visit(own_abi_name, probe, root=broken, samples=1, **where)
    assert done.status in ("wrong_answer", "failed", "unsupported")
    assert done.reason


WAKES_LATE = (
    "kernel/connect.c",
    "const int file = connect_to(address);",
    """int file = connect_to(address);
  if (file >= 0 && read(file, &nothing, 1) <= 0 && close(file) == 0) {
    errno = ECONNRESET;
    file = -1;
  }""",
)


@pytest.mark.parametrize("route", ["tcp", "unix_stream"])
def test_a_connection_that_was_ended_before_its_maker_woke_was_made(
    tmp_path: Path, own_abi: Abi, own_compiler: str, route: str
) -> None:
    """As connect says on a CPU whose network has much to do: in 5 of 150 visits beside six floods of datagrams."""
    build_broken(tmp_path, own_abi, own_compiler, [WAKES_LATE])
    done = visit(own_abi.name, "kernel.connect", root=tmp_path, samples=2, route=route, placement="one_cpu")
    assert done.status == "ok", done.reason


@pytest.mark.parametrize("name", PROBES)
def test_every_point_has_a_number_or_a_sentence(abi: str, name: str, own_abi_name: str) -> None:
    """Of trees of thousands of files, which take seconds to make, one by the first ABI."""
    probe = f"kernel.{name}"
    points = all_points(describe(abi, probe))
    points = [
        point if abi == own_abi_name else point | {axis: min(int(point[axis]), 256) for axis in TREES if axis in point}
        for point in points
        if point.get("files", 1) == 1 or (point.get("call", "stat"), point.get("components", 4)) == ("stat", 4)
    ]
    for done in visits(abi, probe, visiting.asked_of(abi, points)):
        assert done.status == "ok" or (done.status == "unsupported" and done.reason), (done.point, done.reason)


def siblings(cpu: int) -> set[int]:
    """The other threads of its core, as the system tells."""
    told = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    spans = told.read_text(encoding="ascii").strip().split(",") if told.exists() else []
    return {n for span in spans for n in range(int(span.split("-")[0]), int(span.split("-")[-1]) + 1)} - {cpu}


def test_every_channel_asks_everyone_on_every_placement(abi: str) -> None:
    points = all_points(describe(abi, "kernel.call_object"))
    own, *others = visiting.cpus()
    there = {
        "one_cpu": True,
        "two_cpus": bool(set(others) - siblings(own)),
        "sibling": bool(set(others) & siblings(own)),
    }
    for done in visits(abi, "kernel.call_object", points):
        point = done.point.values()
        placed = there[str(point["placement"])] and (
            point["address_space"] != "same_thread" or point["placement"] == "one_cpu"
        )
        placed = placed and (point["channel"] != "futex_private" or point["address_space"] != "other")
        assert done.status == ("ok" if placed else "unsupported"), (done.point, done.reason)


@pytest.mark.machine
def test_what_the_kernel_keeps_by_a_number_is_gone_with_a_killed_probe(own_abi_name: str) -> None:
    """System V's queues and semaphores have no owner that could die."""

    def kept() -> set[str]:
        lines = [Path(f"/proc/sysvipc/{kind}").read_text(encoding="ascii").splitlines() for kind in ("msg", "sem")]
        return {" ".join([str(kind), *line.split()[:2]]) for kind, of_kind in enumerate(lines) for line in of_kind}

    if not Path("/proc/sysvipc/msg").exists():
        pytest.skip("this kernel has no System V IPC")
    for probe, parameters in (
        ("kernel.call_object", "channel=sysv_queue address_space=same_thread"),
        ("kernel.call_object", "channel=sysv_semaphore address_space=same_thread"),
        ("kernel.semaphore", "placement=one_cpu"),
    ):
        before = kept()
        words = [executable(own_abi_name, probe), "--stay"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as held:
            assert held.stdin and held.stdout
            held.stdin.write(f"{parameters} --samples=1 --sample-ns=1000\n".encode())
            held.stdin.flush()
            while b'{"k":"end"' not in held.stdout.readline():
                pass
            made = kept() - before
            os.killpg(held.pid, signal.SIGKILL)
        assert made
        assert in_time(lambda made=made: not kept() & made)


def test_a_probe_whose_companion_dies_ends_by_the_same_signal(own_abi_name: str) -> None:
    """So that the row says its name: the companion is nobody's child but the probe's."""
    words = [executable(own_abi_name, "kernel.call_object"), "channel=pipe", "address_space=other", "--samples=10000"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as probe:
        children = Path(f"/proc/{probe.pid}/task/{probe.pid}/children")
        found = in_time(lambda: children.read_text(encoding="ascii").split())
        os.kill(int(found[0]), signal.SIGFPE)
        said = probe.communicate(timeout=LONG_S)[1]
    assert (probe.returncode, "companion" in said) == (-signal.SIGFPE, True)


@pytest.mark.machine
def test_one_thread_alone_pays_for_no_switch(abi: str) -> None:
    alone, other = in_turns(
        *(
            partial(visit, abi, "kernel.call_object", channel="pipe", address_space=map_)
            for map_ in ("same_thread", "same")
        )
    )
    assert cost(alone) < 0.8 * cost(other)


def test_two_ends_on_two_cpus_are_refused_where_there_is_one(own_abi_name: str) -> None:
    one = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {one})
    try:
        done = visit(own_abi_name, "kernel.call_object", channel="pipe", placement="two_cpus")
    finally:
        os.sched_setaffinity(0, before)
    assert done.status == "unsupported"
    assert done.reason


@pytest.mark.machine
def test_an_entry_costs_many_turns_of_the_loop(abi: str) -> None:
    done, refused = in_turns(
        *(partial(visit, abi, "kernel.enter_syscall", call=call) for call in ("getppid", "unknown"))
    )
    assert cost(done) > 10 * control_cost(done)
    assert cost(refused) < 1.5 * cost(done)


@pytest.fixture(scope="module")
def calls_getppid(tmp_path_factory: pytest.TempPathFactory, own_abi: Abi, own_compiler: str) -> Path:
    made = tmp_path_factory.mktemp("ordinary") / "calls_getppid"
    source = Path(__file__).with_name("calls_getppid.c")
    subprocess.run([*own_compiler.split(), *own_abi.flags, "-O2", source, "-o", made], check=True)
    return made


@pytest.mark.machine
def test_an_entry_costs_what_the_c_librarys_call_does(own_abi_name: str, calls_getppid: Path) -> None:
    """Where a kernel's defences leave no return to be foretold, a gate in the loop itself was 30 % cheaper."""
    ours, programs = [], []
    while len(ours) < 5 or (len(ours) < 20 and min(ours) != pytest.approx(min(programs), rel=0.2)):
        ours.append(cost(visit(own_abi_name, "kernel.enter_syscall", samples=20, **COUNTED)))
        programs.append(float(subprocess.run([calls_getppid], capture_output=True, check=True, timeout=LONG_S).stdout))
    assert min(ours) == pytest.approx(min(programs), rel=0.2), "the least of each of 20 turns, which a neighbour takes"


@pytest.mark.machine
def test_an_ordinary_entry_takes_the_door_that_the_kernel_hands_out(abi: str) -> None:
    """As the C library does: the interrupt of 1978 is many times as dear."""
    ordinary, handed_out = in_turns(
        *(partial(visit, abi, "kernel.enter_gate", gate=gate) for gate in ("ordinary", "vdso"))
    )
    if handed_out.status == "unsupported":
        pytest.skip(f"{abi} is handed none")
    assert cost(ordinary) < 2 * cost(handed_out)


@pytest.mark.skipif(not X86, reason="x86's instructions")
def test_each_way_out_of_a_guest_is_one_instruction_of_a_loop(abi: str) -> None:
    code = instructions(executable(abi, "kernel.guest_exit"), "leave")
    loops = {(i.target, i.address) for i in code if i.target and code[0].address < i.target < i.address}
    turns = [[i.mnemonic for i in code if first <= i.address <= last] for first, last in loops]
    for way_out in ("cpuid", "in", "vmcall", "vmmcall", "rdtsc", "rdtscp", "pause"):
        assert min(turn.count(way_out) for turn in turns if way_out in turn) == 1, way_out


@pytest.mark.machine
@pytest.mark.skipif(not X86, reason="x86's instructions")
def test_what_always_leaves_a_guest_costs_more_than_a_read_of_the_counter(abi: str) -> None:
    """Without a hypervisor too: it serialises the core."""
    cpuid, counter = in_turns(*(partial(visit, abi, "kernel.guest_exit", kind=kind) for kind in ("cpuid", "rdtsc")))
    assert cost(cpuid) > 1.5 * cost(counter)


@pytest.mark.machine
def test_a_call_is_two_instructions_more_than_the_same_work_in_line(abi: str) -> None:
    """A recent core may do all of an iteration in one cycle, with the call and without."""
    done = visit(abi, "kernel.function_call")
    counted = done.counted
    assert counted and counted.instructions and counted.control_instructions
    called, in_line = (batch[1] - batch[0] for batch in (counted.instructions, counted.control_instructions))
    assert called >= in_line + 2 * counted.iterations
    assert cost(done) > 0.9 * control_cost(done)


@pytest.mark.machine
@pytest.mark.parametrize("trap", ["null_store", "protected_store"])
def test_a_fault_to_a_handler_costs_more_than_an_entry(abi: str, trap: str) -> None:
    fault, entry = in_turns(
        partial(visit, abi, "kernel.fault_segv", trap=trap), partial(visit, abi, "kernel.enter_syscall")
    )
    assert cost(fault) > 1.2 * cost(entry)


@pytest.mark.machine
def test_a_huge_page_costs_more_than_a_small_one(abi: str) -> None:
    """Whether it costs less than 512 small ones depends on who else uses the memory: theirs are zeroed in a cache."""
    small, huge = (visit(abi, "kernel.page_fault", kind=kind) for kind in ("anonymous_write", "huge_page"))
    if huge.status == "unsupported":
        pytest.skip(str(huge.reason))
    assert 4 * cost(small) < cost(huge)


@pytest.mark.machine
def test_touching_a_page_again_is_free_beside_its_fault(abi: str) -> None:
    done = visit(abi, "kernel.page_fault", kind="anonymous_write")
    assert cost(done) > 5 * control_cost(done)


@pytest.mark.machine
def test_a_ring_switches_and_its_control_does_not(abi: str) -> None:
    done = visit(abi, "kernel.switch", processes=4, footprint=4096)
    assert cost(done) > control_cost(done)
    assert done.work.operations == 4
    # A woken process may push the writer aside before it sleeps: either way it is out once a lap.
    assert all(one.witness.voluntary + one.witness.involuntary >= one.iterations for one in done.samples)


@pytest.mark.machine
def test_a_footprint_is_paid_by_both_sides_of_a_switch(abi: str) -> None:
    empty, full = in_turns(*(partial(visit, abi, "kernel.switch", processes=4, footprint=size) for size in (0, 262144)))
    assert cost(full) > cost(empty)
    assert control_cost(full) > 2 * control_cost(empty)


@pytest.mark.machine
def test_asking_elsewhere_costs_more_than_asking_here(abi: str) -> None:
    done = visit(abi, "kernel.call_object", channel="pipe", placement="one_cpu")
    assert cost(done) > 20 * control_cost(done)


@pytest.mark.machine
def test_neither_side_of_a_call_on_one_cpu_is_ahead_of_the_other(own_abi_name: str) -> None:
    """The side that is behind would preempt the other at each wake-up: four switches, and none of them a sleep. A loud
    neighbour preempts too: three tries."""
    assert any(_share_without_sleep(own_abi_name) < 0.5 for _ in range(3)), "0.31, and 0.58 of uneven sides"


def _share_without_sleep(abi: str) -> float:
    """Of samples, in which hardly any call sleeps."""
    words = {"channel": "unix_stream", "placement": "one_cpu"}
    done = [visit(abi, "kernel.call_object", samples=32, **words) for _ in range(3)]
    sleeps = [(one.witness.voluntary or 0) / (3 * one.iterations) for visit in done for one in visit.samples]
    return sum(share < 0.2 for share in sleeps) / len(sleeps)


@pytest.mark.skipif(not TWO_CPUS, reason="needs two CPUs")
@pytest.mark.parametrize("map_", ["other", "same"])
def test_a_futex_wait_for_another_cpu_sleeps(abi: str, map_: str) -> None:
    """In each call. Two sides that are quick would else find the word there, and a call would take a hundredth."""
    done = visit(abi, "kernel.call_object", channel="futex", placement="two_cpus", address_space=map_)
    assert done.status == "ok", done.reason
    assert all((one.witness.voluntary or 0) >= 3 * one.iterations for one in done.samples)


@pytest.mark.machine
@pytest.mark.skipif(not TWO_CPUS, reason="needs two CPUs")
def test_spinning_on_two_cpus_beats_waking_the_other(own_abi_name: str) -> None:
    spin, pipe = in_turns(
        *(
            partial(visit, own_abi_name, "kernel.call_object", channel=one, placement="two_cpus")
            for one in ("shared_memory", "pipe")
        )
    )
    assert cost(spin) < cost(pipe)


@pytest.mark.machine
def test_fork_costs_more_the_larger_the_parent(abi: str) -> None:
    small, large = in_turns(
        *(partial(visit, abi, "kernel.process_create", how="fork", footprint=size) for size in (0, 64 << 20))
    )
    assert cost(large) > 1.5 * cost(small)


@pytest.mark.machine
def test_a_delivered_signal_costs_more_than_one_that_is_pending(abi: str) -> None:
    deliver, take, pending = in_turns(
        *(partial(visit, abi, "kernel.signal_self", step=step) for step in ("deliver", "take", "pending"))
    )
    assert min(cost(deliver), cost(take)) > 1.2 * cost(pending)


@pytest.mark.machine
def test_rules_on_an_argument_are_tried_at_each_call(abi: str) -> None:
    few, many = in_turns(
        *(partial(visit, abi, "kernel.enter_checked", check="arguments", rules=rules) for rules in (1, 256))
    )
    if few.status == "unsupported":
        pytest.skip(str(few.reason))
    if cost(few) > 1000:
        pytest.skip("this gate into the kernel costs so much that 256 rules do not show")
    assert cost(many) > 1.1 * cost(few)


@pytest.mark.machine
@pytest.mark.parametrize("act", ["refused", "woken"])
def test_a_wait_costs_more_the_more_futexes_it_is_for(abi: str, act: str) -> None:
    one, many = in_turns(*(partial(visit, abi, "kernel.futex_wait", act=act, futexes=count) for count in (1, 128)))
    if one.status == "unsupported":
        pytest.skip(str(one.reason))
    assert cost(many) > 2 * cost(one)


@pytest.mark.machine
@pytest.mark.parametrize("act", ["collapse", "discard"])
def test_a_call_that_finds_its_work_done_costs_less(abi: str, act: str) -> None:
    done = visit(abi, "kernel.huge_page", act=act)
    if done.status == "unsupported":
        pytest.skip(str(done.reason))
    assert cost(done) > 2 * control_cost(done)


def test_the_swap_of_the_system_is_named_or_how_to_set_one_up(own_abi_name: str) -> None:
    """A number is of the swap that was asked for; the swap in use is left as it is."""
    before = [line.split()[0] for line in Path("/proc/swaps").read_text(encoding="ascii").splitlines()[1:]]
    for swap in ("zram", "zswap", "disk"):
        done = visit(own_abi_name, "kernel.swap_in", samples=1, swap=swap)
        assert done.status in ("ok", "unsupported"), done.reason
        named = any(name in str(done.reason) for name in before)
        assert before or "zramctl" in str(done.reason)
        assert not before or done.status == "ok" or named or "in memory" in str(done.reason)
    assert before == [line.split()[0] for line in Path("/proc/swaps").read_text(encoding="ascii").splitlines()[1:]]


@pytest.mark.machine
@pytest.mark.parametrize("hook", ["raw_tracepoint", "tracepoint", "kprobe", "uprobe", "uretprobe"])
def test_a_hooked_call_costs_more_than_a_free_one(abi: str, hook: str) -> None:
    hooked, free = in_turns(*(partial(visit, abi, "kernel.hook", hook=one) for one in (hook, "nothing")))
    if hooked.status == "unsupported":
        pytest.skip(str(hooked.reason))
    assert cost(hooked) > 1.05 * cost(free)


@pytest.mark.skipif(not X86, reason="x86's code")
def test_a_hook_is_put_on_an_instruction_that_the_kernel_emulates(own_abi_name: str) -> None:
    path = executable(own_abi_name, "kernel.hook")
    hooked, looped = (instructions(path, name) for name in ("hooked_call", "call_hooked"))
    assert hooked[0].mnemonic == "nop" and "ret" in [i.mnemonic for i in hooked]
    first, last = next((i.target, i.address) for i in looped if i.target and looped[0].address < i.target < i.address)
    assert [i.called for i in looped if first <= i.address <= last and i.called] == [hooked[0].address]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("probe", ["hook hook=uprobe", "bpf_map from=program"])
def test_what_takes_privilege_is_said(own_abi_name: str, probe: str) -> None:
    name, point = probe.split()
    command = [executable(own_abi_name, f"kernel.{name}"), "--samples=1", point]
    done = subprocess.run(command, capture_output=True, check=True, timeout=LONG_S, user=65534)
    told = outcome(done.stdout)
    assert told.status == "unsupported" and "CAP_BPF" in str(told.reason)


@pytest.mark.machine
@pytest.mark.parametrize("by", ["trap", "user_notification", "trace"])
def test_a_call_served_elsewhere_costs_more_than_the_kernels(abi: str, by: str) -> None:
    served, kernel = in_turns(*(partial(visit, abi, "kernel.supervise_call", by=one) for one in (by, "kernel")))
    if served.status == "unsupported":
        pytest.skip(str(served.reason))
    assert cost(served) > 1.2 * cost(kernel)


@pytest.mark.machine
@pytest.mark.parametrize("by", ["signal", "userfault", "userfault_write_protect"])
def test_a_fault_served_elsewhere_costs_more_than_the_kernels(abi: str, by: str) -> None:
    served, kernel = in_turns(*(partial(visit, abi, "kernel.supervise_fault", by=one) for one in (by, "kernel")))
    if served.status == "unsupported":
        pytest.skip(str(served.reason))
    assert cost(served) > 1.5 * cost(kernel)


@pytest.mark.machine
def test_a_map_costs_the_same_at_every_size_and_its_pages_do_not(abi: str) -> None:
    def grows(act: str, size: int) -> float:
        small, large = in_turns(*(partial(visit, abi, "kernel.mapping", act=act, size=one) for one in (4096, size)))
        return cost(large) / cost(small)

    assert grows("map", 16 << 20) < 3
    assert grows("map_and_touch", 1 << 20) > 10
    assert grows("protect", 1 << 20) > 2


@pytest.mark.machine
@pytest.mark.skipif(len(visiting.cpus()) < 2, reason="needs two CPUs")
def test_threads_wait_for_what_their_process_shares_and_processes_do_not(own_abi_name: str) -> None:
    visiting.need_cpus_at_a_time(own_abi_name)
    threads, processes = in_turns(
        *(
            partial(visit, own_abi_name, "kernel.scaling", of="membarrier", workers=2, share=share)
            for share in ("threads", "processes")
        )
    )
    assert cost(threads) > 2 * cost(processes)


@pytest.mark.skipif(not X86, reason="x86's code")
def test_a_worker_calls_its_operation_in_a_loop_and_stores_to_every_page(own_abi_name: str) -> None:
    path = executable(own_abi_name, "kernel.scaling")
    for function, worked in (("operate", "call "), ("map_touch_and_unmap", "mov byte")):
        code = instructions(path, function)
        loops = [(i.target, i.address) for i in code if i.target and code[0].address < i.target < i.address]
        first, last = min(loops, key=lambda jump: jump[1] - jump[0])
        turn = [f"{i.mnemonic} {i.operands}" for i in code if first <= i.address <= last]
        assert [i for i in turn if i.startswith(worked)], turn


def test_a_cpu_that_is_missing_is_said(own_abi_name: str) -> None:
    many = len(visiting.cpus()) + 1
    for probe, point in (("kernel.scaling", {"workers": many}), ("kernel.page_release", {"threads": many})):
        done = visit(own_abi_name, probe, samples=1, **point)
        assert done.status == "unsupported"
        assert "need as many CPUs" in (done.reason or "")


@pytest.mark.machine
def test_poll_looks_at_every_file_and_epoll_does_not(abi: str) -> None:
    def grows(call: str) -> float:
        few, many = in_turns(*(partial(visit, abi, "kernel.select", call=call, files=files) for files in (10, 500)))
        return cost(many) / cost(few)

    assert grows("poll") > 5
    assert grows("epoll") < 3


@pytest.mark.machine
@pytest.mark.parametrize("route", ["pipe", "vmsplice", "unix_stream", "tcp"])
def test_large_messages_go_faster_than_small_ones(abi: str, route: str) -> None:
    small, large = in_turns(
        *(partial(visit, abi, "kernel.stream_bandwidth", route=route, message=size) for size in (1024, 65536))
    )
    assert large.work.bytes / cost(large) > 1.5 * small.work.bytes / cost(small)


@pytest.mark.machine
def test_every_datagram_arrives_and_those_that_found_no_room_are_counted(abi: str) -> None:
    """Each burst of small ones fits into the usual buffer; of the largest it takes a receiver who is quick."""
    small, large = (visit(abi, "kernel.datagram_bandwidth", message=size, placement="one_cpu", samples=2)
                    for size in (1024, 65507))  # fmt: skip
    assert (small.status, large.status) == ("ok", "ok"), small.reason or large.reason
    assert small.gauges["lost"] == 0 <= large.gauges["lost"] < 1


@pytest.mark.machine
def test_a_new_map_of_a_file_is_slower_to_read_than_one_that_stays(abi: str) -> None:
    new, kept = in_turns(
        *(partial(visit, abi, "kernel.file_bandwidth", route=route, size=1 << 20) for route in ("new_map", "kept_map"))
    )
    assert cost(new) > 1.5 * cost(kept)


@pytest.mark.skipif(not X86, reason="reads x86's instructions")
def test_the_loop_of_operations_is_written_out(own_abi_name: str) -> None:
    """80 additions of 64-bit integers to one subtraction of the loop's own, none of them through memory."""
    code = instructions(executable(own_abi_name, "kernel.operations"), ADDITIONS)
    jumps = [(i.target, i.address) for i in code if i.target is not None and i.target < i.address]
    first, last = max(jumps, key=lambda jump: jump[1] - jump[0])
    turn = [i for i in code if first <= i.address <= last]
    assert sum(i.mnemonic == "add" for i in turn) == 80
    assert not [i for i in turn if "[" in i.operands] and len(turn) <= 84


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["int32", "float", "double"])
def test_operations_side_by_side_cost_less_than_in_a_chain(abi: str, kind: str) -> None:
    chain, many = in_turns(
        *(partial(visit, abi, "kernel.operations", type=kind, op="multiply", mode=m) for m in ("latency", "throughput"))
    )
    assert cost(many) < 0.8 * cost(chain)
    assert cost(visit(abi, "kernel.operations", type=kind, op="divide", mode="latency")) > 1.5 * cost(chain)


@pytest.mark.machine
@pytest.mark.parametrize("interval", [1000, 100_000])
def test_a_percentile_is_reported_from_a_thousand_timer_expiries_on(own_abi_name: str, interval: int) -> None:
    done = visit(own_abi_name, "kernel.timer", samples=1, interval=interval, slack="least")
    assert done.status == "ok"
    assert not done.gauges if interval == 100_000 else done.gauges["appointments"] >= 1000


def busy_ticks(cpu: int) -> int:
    """What a CPU has worked so far, for programs and for the kernel (proc(5), `cpuN user nice system`)."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    user, nice, system = next(line.split()[1:4] for line in lines if line.startswith(f"cpu{cpu} "))
    return int(user) + int(nice) + int(system)


@pytest.mark.machine
@pytest.mark.skipif(not TWO_CPUS, reason="needs two CPUs")
def test_a_new_process_goes_to_another_cpu_where_it_may(own_abi_name: str) -> None:
    """Whatever else runs on the other CPU is there for both: three tries, since it comes and goes."""
    assert any(_more_work_elsewhere(own_abi_name) > 8 for _ in range(3))


def _more_work_elsewhere(abi: str) -> int:
    """Ticks that the other CPU works more where a new process may go to it."""
    own, other = sorted(os.sched_getaffinity(0))[:2]
    worked = {}
    for placement in ("one_cpu", "any"):
        words = [f"--cpus={own},{other}", "--samples=3", "--sample-ns=50000000", "how=fork", f"placement={placement}"]
        before = busy_ticks(other)
        # A loud neighbour may make it end before its time.
        subprocess.run([executable(abi, "kernel.process_create"), *words], check=False, capture_output=True)
        worked[placement] = busy_ticks(other) - before
    return worked["any"] - worked["one_cpu"]


@pytest.mark.machine
def test_a_timer_with_least_slack_is_less_late(abi: str) -> None:
    usual, least = in_turns(
        *(partial(visit, abi, "kernel.timer", interval=100, slack=slack) for slack in ("usual", "least"))
    )
    for done in (usual, least):
        assert done.gauges["late"] <= done.gauges["late_99th"] <= done.gauges["late_worst"]
    assert least.gauges["late"] < usual.gauges["late"]


def test_timers_of_a_probe_have_slack_where_its_host_is_real_time(abi: str) -> None:
    """A child of a real-time process begins without any."""
    with normal_priority_after():
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        except PermissionError:
            pytest.skip("real-time priority is not permitted")
        probe = subprocess.Popen([executable(abi, "kernel.timer"), "--stay"], stdin=-1, stdout=-1, bufsize=0)
    with probe:
        assert probe.stdin and probe.stdout
        probe.stdin.write(b"samples=1 interval=1000 slack=usual\n")
        assert probe.stdout.readline()
        assert Path(f"/proc/{probe.pid}/timerslack_ns").read_text(encoding="ascii") == "50000\n"
        probe.kill()


@contextmanager
def normal_priority_after() -> Iterator[None]:
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.mark.machine
@pytest.mark.skipif(not TWO_CPUS, reason="needs two CPUs")
def test_a_wake_up_is_a_number_or_the_other_cpu_was_not_idle(abi: str) -> None:
    done = visit(abi, "kernel.wake", samples=1, idle=50)
    assert done.status == "ok" or "not idle" in str(done.reason)


def test_a_file_on_tmpfs_is_distinguished_from_one_on_a_disk(own_abi_name: str, tmp_path: Path) -> None:
    """Whatever the folder is called: a disk's number must not be a memory's."""
    words = [f"--folder={tmp_path}", "--samples=1", "act=fsync"]
    for probe in ("kernel.disk_file", "kernel.disk act=read", "kernel.disk_queue act=read"):
        name, *own = probe.split()
        done = outcome_of(own_abi_name, name, "--folder=/dev/shm", "--samples=1", *own)
        assert done.status == "unsupported" and "tmpfs" in str(done.reason)
    on_disk = outcome_of(own_abi_name, "kernel.disk_file", *words)
    assert on_disk.status == "ok" or "--folder" in str(on_disk.reason)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("depth", [1, 8, 64])
def test_requests_that_are_submitted_at_once_take_one_call(own_abi_name: str, depth: int) -> None:
    def calls_of_64(operation: str, polled: str) -> float:
        done = visit(own_abi_name, "kernel.io_ring", samples=1, depth=depth, operation=operation, polled=polled)
        if done.status == "unsupported" or done.counted is None or done.counted.calls is None:
            pytest.skip(done.reason or "this system lets no process be traced")
        assert done.status == "ok", done.reason
        once, twice = done.counted.calls
        return (twice - once) / done.counted.iterations

    assert calls_of_64("nop", "no") == calls_of_64("read_fixed", "no") == 64 / depth
    assert calls_of_64("pread", "no") == 64
    assert calls_of_64("nop", "yes") < 64 / depth


@pytest.mark.machine
def test_an_operation_costs_less_the_more_are_submitted_at_once(abi: str) -> None:
    """The entry is most of what one alone takes, and 64 share one."""
    few, many = in_turns(*(partial(visit, abi, "kernel.io_ring", operation="nop", polled="no", depth=depth)
                           for depth in (1, 64)))  # fmt: skip
    if few.status == "unsupported":
        assert few.reason
        pytest.skip(few.reason)
    assert cost(few) > 2 * cost(many)


@pytest.mark.machine
def test_a_disk_request_takes_less_the_more_are_in_flight(own_abi_name: str) -> None:
    alone, many = in_turns(*(partial(visit, own_abi_name, "kernel.disk_queue", act="read", depth=depth)
                             for depth in (1, 64)))  # fmt: skip
    if alone.status == "unsupported":
        assert alone.reason
        pytest.skip(alone.reason)
    assert cost(alone) > 1.5 * cost(many)


def test_a_file_whose_reads_may_block_and_a_lone_cpu_are_said(own_abi_name: str) -> None:
    """A read that goes to another thread is another number."""
    blocked = outcome_of(own_abi_name, "kernel.io_ring", "--folder=/dev/shm", "--samples=1", "operation=read")
    alone = outcome_of(own_abi_name, "kernel.io_ring", "--cpus=0", "--samples=1", "operation=nop", "polled=yes")
    assert blocked.status == alone.status == "unsupported"
    assert "may block a read" in str(blocked.reason) and "needs a CPU beside" in str(alone.reason)
    plain = outcome_of(own_abi_name, "kernel.io_ring", "--folder=/dev/shm", "--samples=1", "operation=pread")
    assert plain.status == "ok", plain.reason


def outcome_of_traced(abi: str, probe: str, injected: str, *words: str) -> Outcome:
    """The outcome of a visit whose system calls strace changes."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    kind = injected.partition(":")[0]
    traced = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={kind}", "-e", f"inject={injected}"]
    done = subprocess.run(
        [*traced, executable(abi, probe), *visiting.options(1), *words], capture_output=True, check=True, timeout=LONG_S
    )
    return outcome(done.stdout)


@pytest.mark.parametrize("by", ["userfault", "userfault_copy", "userfault_move", "userfault_write_protect"])
def test_a_pager_whose_page_is_in_use_asks_again(own_abi_name: str, by: str) -> None:
    """The first two requests open the pager; then every second one is refused."""
    if (reason := outcome_of(own_abi_name, "kernel.supervise_fault", "--samples=1", f"by={by}").reason) is not None:
        pytest.skip(reason)
    done = outcome_of_traced(own_abi_name, "kernel.supervise_fault", "ioctl:error=EAGAIN:when=3+2", f"by={by}")
    assert done.status == "ok", done.reason


@pytest.mark.parametrize("probe", ["disk_queue act=read", "io_ring operation=read polled=no"])
def test_a_kernel_whose_ring_has_no_plain_reads_is_a_reason(own_abi_name: str, probe: str, tmp_path: Path) -> None:
    """The answer of Linux 5.1 to 5.5: no features after the sizes of both rings and three other words."""
    name, *words = probe.split()
    words += ["depth=4", f"--folder={tmp_path}"]
    if (reason := outcome_of(own_abi_name, f"kernel.{name}", "--samples=1", *words).reason) is not None:
        pytest.skip(reason)
    answer = struct.pack("=6I", 4, 8, 0, 0, 0, 0).hex()
    done = outcome_of_traced(own_abi_name, f"kernel.{name}", f"io_uring_setup:poke_exit=@arg2={answer}", *words)
    assert done.status == "unsupported" and "Linux 5.6" in str(done.reason)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a folder in place of the system's devices")
def test_a_device_without_a_register_behind_its_file_is_a_reason(own_abi_name: str, tmp_path: Path) -> None:
    """A read beyond the end of the mapped file ends in SIGBUS."""
    device = tmp_path / "0000:00:01.0"
    device.mkdir()
    space = bytearray(256)
    space[0:2], space[0x34] = struct.pack("<H", 0x1AF4), 0x40
    space[0x40:0x44] = bytes((9, 0, 16, 1))
    (device / "config").write_bytes(space)
    (device / "resource0").touch()
    devices = Path("/sys/bus/pci/devices")
    if not devices.is_dir():
        pytest.skip("this system has no PCI")
    script = 'mount --bind "$0" "$1" || exit 9; shift; exec "$@"'
    probe = [executable(own_abi_name, "kernel.guest_exit"), *visiting.options(1), "kind=mmio"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, tmp_path, devices, *probe], capture_output=True, check=False
    )
    if done.returncode == 9 or b"unshare" in done.stderr:
        pytest.skip(done.stderr.decode())
    told = outcome(done.stdout)
    assert told.status == "unsupported" and "signal" in str(told.reason), told.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="lowers a limit that binds other users alone")
def test_a_limit_of_locked_memory_is_said(own_abi_name: str) -> None:
    words = ["--samples=1", "--folder=/tmp", "operation=read_fixed"]
    free = outcome_of(own_abi_name, "kernel.io_ring", *words)
    if free.status == "unsupported":
        assert free.reason
        pytest.skip(free.reason)

    def become_limited() -> None:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        os.setuid(65534)

    command = [executable(own_abi_name, "kernel.io_ring"), *words]
    done = subprocess.run(command, capture_output=True, check=True, timeout=LONG_S, preexec_fn=become_limited)
    told = outcome(done.stdout)
    assert told.status == "unsupported" and "RLIMIT_MEMLOCK (ulimit -l) is 0 KiB" in str(told.reason)


FORBIDDEN = {
    "ptrace": 101, "process_vm_readv": 310, "io_uring_setup": 425, "mq_open": 240, "msgget": 68, "semget": 64,
    "signalfd4": 289, "eventfd2": 290, "memfd_create": 319, "userfaultfd": 323, "seccomp": 317, "vmsplice": 278,
    "socketpair": 53, "bpf": 321,
}  # fmt: skip
"""By their numbers on x86-64."""


@pytest.fixture(scope="module")
def forbidding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("forbidding") / "forbidding"
    source = Path(__file__).with_name("forbidding.c")
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", source, "-o", made], check=True)
    return made


@pytest.mark.skipif(platform.machine() != "x86_64", reason="forbids by the numbers of x86-64")
@pytest.mark.parametrize("probe", ["call_object", "supervise_call", "supervise_fault", "select", "io_ring", "hook"])
def test_what_a_sandbox_forbids_is_a_reason_a_row_and_an_end(probe: str, forbidding: Path) -> None:
    """Neither a hang nor a failure, whatever of it is missing; and what is not forbidden has its number."""
    numbers = [str(number) for number in FORBIDDEN.values()]
    points = [
        p for p in all_points(describe("x86_64", f"kernel.{probe}")) if p.get("placement", "one_cpu") == "one_cpu"
    ]
    lines = [
        "--samples=1 --sample-ns=1000 --deadline-ms=60000 " + " ".join(f"{k}={v}" for k, v in point.items())
        for point in points
    ]
    command = [forbidding, *numbers, "--", executable("x86_64", f"kernel.{probe}"), "--visits"]
    done = subprocess.run(command, input="\n".join([*lines, ""]), capture_output=True, check=True, text=True)
    told = [outcome(('{"k":"visit"' + stream).encode()) for stream in done.stdout.split('{"k":"visit"')[1:]]
    assert len(told) == len(points)
    for one in told:
        assert one.status == "ok" or (one.status == "unsupported" and one.reason), (one.point, one.status, one.reason)
    assert {one.status for one in told} == {"ok", "unsupported"}


def test_the_system_counts_the_calls_and_instructions_of_a_batch(own_abi_name: str) -> None:
    """The calls are those that the probe declares; a batch of twice the length executes twice as much."""
    found = outcome_of(own_abi_name, "kernel.enter_syscall", "--samples=2", "--sample-ns=100000").counted
    if found is None or found.calls is None:
        pytest.skip("this system lets no process be traced")
    assert found.calls == (found.iterations, 2 * found.iterations)
    assert found.control_calls == (0, 0)
    if found.instructions and found.control_instructions:
        body, control = (pair[1] - pair[0] for pair in (found.instructions, found.control_instructions))
        assert body > control >= 2 * found.iterations
    walk = outcome_of(own_abi_name, "memory.latency", "--samples=2", "size=65536").counted
    assert walk is not None
    assert (walk.chase_bytes, walk.buffer_bytes) == (65536, 65536)
    assert walk.chase_in_order < 0.1


def test_a_later_visit_of_a_point_is_not_counted(own_abi_name: str) -> None:
    assert outcome_of(own_abi_name, "kernel.loop", "--samples=2", "--iterations=100000").counted is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="forbids by the numbers of x86-64")
@pytest.mark.parametrize("how", [[], ["--kill"]], ids=["refused", "killed"])
def test_a_sandbox_that_forbids_tracing_leaves_a_visit_as_it_is(how: list[str], forbidding: Path) -> None:
    ptrace = "101"
    command = [forbidding, *how, ptrace, "--", executable("x86_64", "kernel.enter_syscall"), "--samples=2"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=LONG_S)
    told = outcome(done.stdout)
    assert told.status == "ok"
    assert told.counted is not None
    assert told.counted.calls is None


def outcome_of(abi: str, probe: str, *words: str) -> Outcome:
    done = subprocess.run([executable(abi, probe), *words], capture_output=True, check=True, timeout=LONG_S)
    return outcome(done.stdout)


@pytest.mark.machine
def test_files_are_gone_with_a_killed_probe(own_abi_name: str) -> None:
    words = [executable(own_abi_name, "kernel.disk_file"), "medium=memory", "--samples=100", "--sample-ns=50000000"]
    before = set(Path("/dev/shm").iterdir())
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as held:
        made = in_time(lambda: set(Path("/dev/shm").iterdir()) - before)
        os.killpg(held.pid, signal.SIGKILL)
    assert made
    assert in_time(lambda: not any(path.exists() for path in made))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which root alone may")
def test_a_full_disk_is_a_reason_and_leaves_nothing(own_abi_name: str, tmp_path: Path) -> None:
    """A file system of 2 MiB, looped over a file, is no memory to whoever asks it."""
    image, mounted = tmp_path / "image", tmp_path / "mounted"
    image.write_bytes(bytes(2 << 20))
    mounted.mkdir()
    made = subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, check=False)
    if (
        made.returncode
        or subprocess.run(["mount", "-o", "loop", image, mounted], capture_output=True, check=False).returncode
    ):
        pytest.skip("no small disk can be mounted here")
    try:
        done = outcome_of(own_abi_name, "kernel.disk", f"--folder={mounted}", "--samples=1")
        assert done.status == "unsupported" and "no room" in str(done.reason)
        assert [path.name for path in mounted.iterdir()] == ["lost+found"]
    finally:
        subprocess.run(["umount", mounted], check=True)


KERNELS = (
    "connect", "disk", "disk_file", "disk_queue", "http_fetch", "jobs", "remote_call", "remote_bandwidth",
    "call_object", "datagram_bandwidth", "enter_checked", "enter_gate", "enter_syscall", "fault_segv", "fault_trap",
    "file_bandwidth",
    "clock_read", "file_call", "list_folder", "mapping", "path_call", "page_fault", "process_create", "select",
    "semaphore", "signal_self", "stream_bandwidth", "io_ring", "hook", "bpf_map", "guest_exit",
    "futex_wait", "speculation",
    "huge_page", "swap_in",
    "supervise_call", "supervise_fault", "switch", "switch_refill", "timer", "wake",
    "wake_spinning", "hidden_gaps",
)  # fmt: skip

COUNT = """
import mmap, struct, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 16) as page:
    for count in range(1 << 40):
        struct.pack_into("=Q", page, 0, 100 * count)
"""


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What an emulator keeps: a count that grows, and its mark."""
    path = tmp_path_factory.mktemp("counter") / "counter"
    path.write_bytes(struct.pack("=QQ", 0, 1).ljust(4096, b"\0"))
    counter = [sys.executable, "-c", COUNT, str(path)]
    with subprocess.Popen(counter) as running:
        yield path
        running.kill()


@pytest.mark.parametrize("probe", [*(f"kernel.{name}" for name in KERNELS), "float.dot way=trapped n=16"])
def test_where_only_the_program_is_counted_a_kernels_boundary_is_a_gap(
    abi: str, probe: str, counting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 instructions are no system call."""
    monkeypatch.setenv("TOLL_CLOCK", f"instructions:{counting}")
    name, *words = probe.split()
    done = visit(abi, name, **dict(word.split("=") for word in words))
    assert done.status == "unsupported" and "--target guest" in str(done.reason)


def test_nothing_is_taken_from_a_count(abi: str, counting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The detours of a loop were the host's time, and so were the clocks of CPUs."""
    monkeypatch.setenv("TOLL_CLOCK", f"instructions:{counting}")
    assert visit(abi, "kernel.noise").status == visit(abi, "memory.clock_of_cpus").status == "unsupported"


def test_each_allowed_cpu_has_a_clock_of_its_own(abi: str) -> None:
    done = visit(abi, "memory.clock_of_cpus", samples=1)
    clocks = {name: hz for name, hz in done.gauges.items() if name.startswith("cpu_")}
    assert clocks.keys() == {f"cpu_{cpu}" for cpu in os.sched_getaffinity(0)}
    assert all(1e8 < hz < 1e10 for hz in clocks.values()) and 0 < done.gauges["at_wake"] <= 1


def test_gaps_that_interrupts_explain_are_not_hidden(own_abi_name: str) -> None:
    """A process that is stopped and continued switches, so that its gaps have an account."""
    words = [executable(own_abi_name, "kernel.hidden_gaps"), "--samples=1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as probe:
        try:
            for _ in range(10):
                os.kill(probe.pid, signal.SIGSTOP)
                time.sleep(0.02)
                os.kill(probe.pid, signal.SIGCONT)
                time.sleep(0.002)
        finally:
            os.kill(probe.pid, signal.SIGCONT)
        told = probe.communicate(timeout=LONG_S)[0]
    gauges = outcome(told).gauges
    assert gauges["hidden_longest"] < 20e6


@pytest.mark.machine
def test_what_stands_behind_one_sample_stands_before_the_next(own_abi_name: str) -> None:
    seen = [sample.witness for sample in visit(own_abi_name, "kernel.loop", samples=16).samples]
    assert all(later.width_before_hz == one.width_hz for one, later in itertools.pairwise(seen))
    assert all(later.control_before_hz == one.control_hz for one, later in itertools.pairwise(seen))
    # A look of its own, at the same core: a clock's step makes some alike, but not all, and each by the same unit.
    assert any(one.width_between_hz not in (one.width_hz, one.width_before_hz) for one in seen)
    assert 1 / 4 < median(one.width_between_hz for one in seen) / median(one.width_hz for one in seen) < 4
