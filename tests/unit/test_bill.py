# SPDX-License-Identifier: Apache-2.0
"""A bill and its advice, from planted counts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tollmeter.bill.billed import Billed, billed_process, middle_first
from tollmeter.bill.calibration import Calibration, combined_calibration
from tollmeter.bill.crossings import CallCount, Crossings, Way, without_loader
from tollmeter.bill.items import Bill, bill_of, counts
from tollmeter.bill.printed import blocks
from tollmeter.bill.savings import savings
from tollmeter.report.blocks import Table

CALIBRATION = Calibration(
    toll_ns=100.0, store_ns=500.0, load_ns=300.0, copy_ns=700.0, window_ns=150.0,
    spawn_ns=20_000.0, given_back=0.5, switch_ns=400.0,
)  # fmt: skip


def call(
    name: str, count: int, each_ns: float, *, size: int = 0, each_bytes: int = 0, repeats: int = 0, switched: int = 0
) -> CallCount:
    return CallCount(
        number=0, is_32=False, name=name, size=size, count=count, ns=int(count * each_ns), bytes=count * each_bytes,
        errors=0, repeats=repeats, switched=switched,
    )  # fmt: skip


def of_32(each: CallCount) -> CallCount:
    return replace(each, is_32=True)


def crossed(calls: Sequence[CallCount], cpu_ms: float = 100.0, **events: int) -> Crossings:
    return Crossings(
        reason="", error=0, status=0, wall_ns=int(cpu_ms * 1e6), user_ns=0, system_ns=int(cpu_ms * 1e6), minor_faults=7,
        major_faults=0, voluntary=events.get("voluntary", 3), involuntary=0, calls=tuple(calls), events=events,
    )  # fmt: skip


def billed(counted: Crossings, way: Way = "kernel") -> Bill:
    return bill_of("program", [counted] * 3, counted, CALIBRATION, way=way)


def item_ns(made: Bill, name: str) -> float | None:
    return next(item.ns for item in made.items if item.name == name)


def test_a_window_is_calibrated_by_the_shortest_call() -> None:
    # 350 ns between the tracepoints, of which getppid's 150 stand for a call of 100.
    made = billed(crossed([call("read", 1000, 350.0, each_bytes=1, size=1)]))
    assert item_ns(made, "read") == pytest.approx(300_000)
    assert next(item.boundary_ns for item in made.items if item.name == "read") == pytest.approx(100_000)


BY_32 = replace(CALIBRATION, toll_32_ns=130.0, window_32_ns=120.0, counted_32_ns=400.0, added_call_ns=300.0)


def test_a_call_of_the_32_bit_abi_is_calibrated_by_its_own_entry() -> None:
    """Its window of 350 ns contains 120 of getppid's, which costs 130. Counting adds 270 to it, and 300 to others."""
    counted = crossed([of_32(call("read", 1000, 350.0)), call("read", 1000, 350.0)])
    made = bill_of("program", [counted] * 3, counted, BY_32, way="kernel")
    assert item_ns(made, "read (32 bit)") == pytest.approx(360_000)
    assert item_ns(made, "read") == pytest.approx(300_000)
    assert [item.boundary_ns for item in made.items[:2]] == [pytest.approx(130_000), pytest.approx(100_000)]
    assert BY_32.counting_ns(counted) == pytest.approx(1000 * 270 + 1000 * 300)


def test_without_a_program_of_the_32_bit_abi_the_other_entry_is_used_and_said() -> None:
    counted = crossed([of_32(call("read", 1000, 350.0))])
    made = billed(counted)
    assert item_ns(made, "read (32 bit)") == pytest.approx(300_000)
    assert any("no program of it can be built" in block for block in blocks([Billed(made)]) if isinstance(block, str))


def test_a_rule_knows_the_names_of_the_32_bit_abi() -> None:
    counted = crossed([of_32(call("_llseek", 50_000, 220.0)), of_32(call("read", 50_000, 1050.0, size=4))])
    (saving,) = savings(bill_of("program", [counted] * 3, counted, BY_32, way="kernel"), counted)
    assert "pread" in saving.what and saving.ns == pytest.approx(50_000 * 230)


def test_a_repeat_of_one_abi_is_not_priced_as_the_other() -> None:
    counted = crossed([of_32(call("statx", 10_000, 990.0, repeats=9_000)), call("statx", 20_000, 2050.0)])
    (saving,) = savings(bill_of("program", [counted] * 3, counted, BY_32, way="kernel"), counted)
    assert saving.ns == pytest.approx(9_000 * 1000) and "statx (32 bit)" in saving.what


def test_a_bill_without_times_has_counts_and_sizes_and_repeats() -> None:
    counted = crossed([call("write", 10, 350.0, each_bytes=3), call("stat", 50, 10.0, repeats=49)], store_faults=2)
    made = counts("program", counted, way="kernel", why="", untimed="no clock")
    assert [(item.name, item.count, item.ns, item.bytes) for item in made.items] == [
        ("stat", 50, None, None), ("write", 10, None, 30), ("first store to a page", 2, None, None),
    ]  # fmt: skip
    head, table, *sentences = blocks([Billed(made, counted=(counted,))])
    assert head == "60 system calls · not timed: no clock" and isinstance(table, Table)
    assert [str(cell) for cell in table.rows[1].cells] == ["write", "10", "3 B"]
    assert any("again in 49 of 50 calls" in f"{sentence}" for sentence in sentences)


def test_the_calls_of_the_loader_are_not_the_program_s() -> None:
    counted = without_loader(crossed([call("read", 10, 1.0), call("rt_sigreturn", 11, 1.0)], signals=12))
    assert [one.name for one in counted.calls] == ["read"] and counted.events["signals"] == 1


def test_a_running_process_may_end_while_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "100"]) as running:

        def ended(*_: object) -> Crossings:
            running.kill()
            running.wait()
            return crossed([call("read", 10, 350.0)])

        monkeypatch.setattr("tollmeter.bill.billed.here", lambda: None)
        monkeypatch.setattr("tollmeter.bill.billed.of_process", ended)
        monkeypatch.setattr("tollmeter.bill.billed.calibrated", lambda *_, **__: CALIBRATION)
        assert billed_process(running.pid, 1.0).bill.command.endswith(f"(process {running.pid})")


def test_a_call_that_waits_costs_what_a_switch_costs_outside_of_its_window() -> None:
    counted = crossed([call("read", 1000, 350.0, each_bytes=1, size=1, switched=500)], cpu_ms=1.0)
    made = billed(counted)
    assert item_ns(made, "read") == pytest.approx(300_000 + 500 * 400)
    (saving,) = savings(made, counted)
    assert saving.ns == pytest.approx(500_000, rel=0.01)


def test_a_call_that_is_shorter_than_the_window_of_counting_costs_nothing_and_not_less() -> None:
    assert item_ns(billed(crossed([call("read", 1000, 10.0)])), "read") == 0.0


def test_the_items_never_exceed_the_cpu_time() -> None:
    made = billed(crossed([call("stat", 1000, 400_000.0)]))
    assert made.kernel_ns == pytest.approx(made.cpu.value) and made.capped


def test_a_saving_never_exceeds_the_cpu_time() -> None:
    counted = crossed([call("clock_gettime", 1000, 400_050.0)])
    made = billed(counted)
    (saving,) = savings(made, counted)
    assert 0.99 * made.cpu.value < saving.ns <= made.cpu.value


def test_a_call_that_is_not_timed_is_priced_as_the_shortest_and_says_at_least() -> None:
    made = billed(crossed([call("read", 1000, 0.0)]), "notified")
    (item,) = (item for item in made.items if item.name == "read")
    assert (item.ns, item.bound) == (pytest.approx(100_000), "at least")


def test_switches_and_faults_are_those_of_runs_that_were_not_counted() -> None:
    counted = crossed([], voluntary=0)
    made = bill_of("program", [crossed([])] * 3, counted, CALIBRATION, way="notified")
    assert made.events["voluntary"] == 3
    assert [(item.name, item.count) for item in made.items] == [("page fault", 7)]


def test_page_faults_have_their_kinds_and_prices_where_these_are_counted() -> None:
    made = billed(crossed([], store_faults=10, copy_faults=4, load_faults=1, fetch_faults=0))
    assert [(item.count, item.ns, item.bound) for item in made.items] == [
        (10, 5000.0, "at least"), (4, 2800.0, "at most"), (1, 300.0, "at most"),
    ]  # fmt: skip


def test_page_faults_that_are_timed_cost_their_windows() -> None:
    """Of 400 ns, of which that of a first store stands for a fault of 500."""
    counted = crossed([], store_faults=10, store_fault_ns=4000, load_faults=2, load_fault_ns=5000, copy_faults=1)
    clean = replace(counted, major_faults=1)
    made = bill_of("program", [clean] * 3, counted, replace(CALIBRATION, fault_ns=400.0, scale=0.5), way="kernel")
    assert [(item.count, item.ns, item.bound) for item in made.items] == [
        (10, 3000.0, ""), (2, 2700.0, ""), (1, 700.0, "at most"),
    ]  # fmt: skip
    assert made.events["major_faults"] == 1


def test_timer_interrupts_are_an_item_of_their_own() -> None:
    (item,) = billed(crossed([], ticks=3, tick_ns=9000, store_faults=0)).items[:1]
    assert (item.name, item.count, item.ns, item.boundary_ns) == ("timer interrupt", 3, 9000.0, 0.0)


def test_a_counted_run_is_scaled_by_its_own_cpu_time_and_that_of_counting() -> None:
    """Of two runs of one share, on a core of half the speed in one of them. Counting adds 0.2 ms of 10.2."""
    clean = [crossed([], cpu_ms=10.0)] * 3
    added = {"added_call_ns": 100.0, "added_ask_ns": 50.0, "added_switch_ns": 1000.0, "added_fault_ns": 500.0}
    fast, slow = (
        crossed([call("stat", 1000, each)], cpu_ms=cpu_ms, voluntary=30, store_faults=20, copy_faults=20)
        for each, cpu_ms in ((1000.0, 10.2), (2000.0, 20.4))
    )
    (_, one), (_, other) = middle_first(clean, [fast, slow], replace(CALIBRATION, **added), "kernel")
    assert sorted((one.scale, other.scale)) == [pytest.approx(0.5), pytest.approx(1.0)]


def test_both_times_of_the_shortest_call_are_of_one_run() -> None:
    """A core that is contended in all trials, and in one of two counted runs."""
    slow, fast = (
        replace(crossed([]), toll_ns=toll_ns, window_ns=toll_ns - 5.0, counting_ns=2 * toll_ns)
        for toll_ns in (350.0, 170.0)
    )
    one = combined_calibration([replace(CALIBRATION, toll_ns=340.0)], [slow, fast])
    assert (one.toll_ns, one.window_ns) == (170.0, 165.0)
    assert one.added_call_ns == 260.0  # as the others, in the usual state of the core


def test_time_that_the_host_takes_between_switches_is_no_cost_of_calls() -> None:
    clean = [crossed([])] * 3
    stolen = crossed([], on_cpu_ns=2 * clean[0].cpu_ns)
    ((_, one),) = middle_first(clean, [stolen], CALIBRATION, "kernel")
    assert one.scale == pytest.approx(0.5)


def test_small_transfers_are_merged_by_their_bytes() -> None:
    counted = crossed(
        [call("read", 8192, 350.0, each_bytes=1, size=1), call("write", 1, 350.0, each_bytes=4096, size=3)]
    )
    (saving,) = savings(billed(counted), counted)
    assert (saving.what, saving.before, saving.after) == ("read 4 KiB at a time", 8192, 2)
    assert saving.ns == pytest.approx(8190 * 300) and saving.least_ns == pytest.approx(8190 * 100)


@pytest.mark.parametrize(
    ("calls", "events", "saves_ns"),
    [
        ([call("lseek", 50_000, 150.0), call("read", 50_000, 1050.0, size=4)], {}, 50_000 * 100),
        ([call("clock_gettime", 20_000, 250.0)], {}, 20_000 * 200),
        ([call("mmap", 3000, 1050.0), call("munmap", 3000, 2050.0)], {"execs": 1}, 3000 * 3000),
        ([call("fork", 100, 100_050.0)], {"execs": 100, "forks": 100}, 100 * 80_000 * 1.5),
        ([call("newfstatat", 10_000, 1050.0, repeats=9_900)], {}, 9_900 * 1000),
        ([call("futex", 64_000, 1050.0)], {"voluntary": 32_000}, 63_000 * 1000),
        ([call("rt_sigaction", 64 * 500, 200.0)], {"forks": 500}, 64 * 500 * 150),
        ([call("mprotect", 300, 9_050.0), call("access", 100, 2_050.0)], {"execs": 100}, 300 * 9000 + 100 * 2000),
    ],
)
def test_a_rule_predicts_what_its_change_removes(
    calls: list[CallCount], events: dict[str, int], saves_ns: float
) -> None:
    counted = crossed(calls, **events)
    (saving,) = savings(billed(counted), counted)
    assert saving.ns == pytest.approx(saves_ns)


@pytest.mark.parametrize(
    "calls",
    [
        [call("read", 8000, 350.0, each_bytes=65536, size=4)],
        [call("lseek", 50_000, 150.0), call("read", 10, 1050.0)],
        [call("mmap", 30, 900_050.0), call("munmap", 5, 1050.0)],
        [call("clone", 100, 100_050.0)],
        [call("futex", 64_000, 1050.0)],
        [call("newfstatat", 1000, 1050.0, repeats=1)],
        [call("read", 3, 350.0, each_bytes=1, size=1)],
    ],
)
def test_no_saving_is_made_up(calls: list[CallCount]) -> None:
    counted = crossed(calls)
    assert savings(billed(counted), counted) == ()


def test_what_stops_a_better_way_is_printed() -> None:
    counted = crossed([call("read", 10, 0.0)])
    made = bill_of("program", [counted] * 3, counted, CALIBRATION, way="notified", why="BPF is not permitted")
    shown = [block for block in blocks([Billed(made)]) if isinstance(block, str)]
    assert any("BPF is not permitted" in sentence for sentence in shown)
    assert any(isinstance(block, Table) for block in blocks([Billed(made)]))


def test_a_running_process_has_no_clean_runs_to_speak_of() -> None:
    made = replace(billed(crossed([call("read", 1000, 1000.0)])), runs=0)
    headline = next(block for block in blocks([Billed(made, ())]) if isinstance(block, str))
    assert "clean run" not in headline and "without that of counting" in headline
