# SPDX-License-Identifier: Apache-2.0
"""`toll bill` of one program for each ABI that the kernel runs, here and in a guest: tests/faults/crossing.c."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.target_stands import need
from tollmeter import commands
from tollmeter.bill.billed import Billed, billed, runner_of
from tollmeter.bill.crossings import LOADED, Runner, Way
from tollmeter.bill.items import Bill, Counts
from tollmeter.bill.printed import blocks
from tollmeter.library import places
from tollmeter.model import Failure
from tollmeter.report.blocks import Table
from tollmeter.targets.local import serves_x32
from tollmeter.targets.timer import Words
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.build import find_compiler
from tollmeter.toolchain.workload_build import bill_runner

TIMES = 50
LINKED = Words("/bin/true", ("true",))
"""A command that needs libraries, which a guest has not."""
BUDGET_S = 1.0
OWN = "x86_64"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crossing")


def program(folder: Path, abi_name: str) -> str:
    """The program for an ABI. Skips the test where it cannot be built."""
    abi, made = known_abis(places.ROOT)[abi_name], folder / f"crossing.{abi_name}"
    if made.exists():
        return f"{made}"
    compiler = find_compiler(abi)
    if not isinstance(compiler, str):
        pytest.skip(f"no compiler for {abi_name}")
    text = Path(__file__).with_name("crossing.c")
    command = [*compiler.split(), *abi.flags, "-O2", "-static", f"{text}", "-pthread", "-o", f"{made}"]
    commands.run("checkout", command, check=True)
    return f"{made}"


def words(path: str, mode: str = "bytes", times: int = TIMES) -> Words:
    return Words(path, (path, mode, str(times)))


def bills(runner: Runner, several: list[Words], *ways: Way) -> tuple[Billed, ...]:
    """Skips the test where the system does not permit these ways to count, with the reason."""
    try:
        return billed(runner, several, BUDGET_S, ways)
    except Failure as failure:
        if failure.exit_code == 5:
            pytest.skip(failure.sentence)
        raise


def names(made: Billed) -> Counter[str]:
    every = Counter[str]()
    for call in made.counted[0].calls:
        every[call.name] += call.count
    return every


def test_the_32_bit_abi_has_its_own_names_sizes_repeats_and_entry(folder: Path) -> None:
    path = program(folder, "ia32")
    with runner_of("local", []) as runner:
        one, stats = bills(runner, [words(path, "bytes", 3000), words(path, "stats")], "kernel")
    assert isinstance(one.bill, Bill)
    (item,) = (item for item in one.bill.items if item.name == "write (32 bit)")
    assert (item.count, item.bytes) == (3000, 3000)
    repeated = {call.name: call.repeats for call in stats.counted[0].calls if call.repeats}
    assert list(repeated.values()) == [TIMES - 1] and next(iter(repeated)).startswith(("stat", "fstat"))
    by = one.bill.calibration
    assert 0 < by.window_32_ns < by.counted_32_ns and 0 < by.toll_32_ns < by.counted_32_ns
    assert any("32-bit ABI takes" in block for block in blocks([one]) if isinstance(block, str))


def test_notification_knows_the_sizes_of_the_32_bit_abi(folder: Path) -> None:
    path = program(folder, "ia32")
    with runner_of("local", []) as runner:
        (made,) = bills(runner, [words(path)], "notified")
    assert [call.bytes for call in made.counted[0].calls if (call.name, call.size) == ("write", 1)] == [TIMES]


@pytest.mark.skipif(not serves_x32(), reason="the loader of x32 is not needed or cannot run here")
def test_a_program_of_x32_is_counted_beside_that_of_x86_64_and_not_timed(folder: Path) -> None:
    """Its bill has neither the signal of each call nor the return from it."""
    several = [words(program(folder, abi)) for abi in (OWN, "x32")]
    with runner_of("local", several) as runner:
        one, other = bills(runner, several, "kernel")
    assert isinstance(one.bill, Bill) and isinstance(other.bill, Counts)
    assert other.bill.untimed == LOADED and other.saved is None
    assert names(other)["write"] == names(one)["write"] == TIMES
    assert names(other)["rt_sigreturn"] == 0 and other.bill.events["signals"] < 5
    shown = [*blocks([one, other])]
    assert any("not timed: our loader" in block for block in shown if isinstance(block, str))
    assert sum(isinstance(block, Table) for block in shown) == 2


# ---- in a guest ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guest(folder: Path) -> Iterator[Runner]:
    """Skips the tests where there is no emulator or no kernel for it."""
    need("qemu-system-x86_64")
    every = [words(program(folder, abi)) for abi in (OWN, "ia32", "x32")]
    try:
        with runner_of("guest:x32", [*every, LINKED]) as runner:
            billed(runner, every[:1], ways=["notified"])
            yield runner
    except Failure as failure:
        pytest.skip(failure.sentence)


@pytest.mark.parametrize("way", ["kernel", "notified"])
def test_a_guest_counts_programs_of_three_abis_exactly_and_has_no_times(guest: Runner, folder: Path, way: Way) -> None:
    """Each makes the calls of the same program here, by a kernel that runs x32 itself."""
    several = [words(program(folder, abi), "null_stats") for abi in (OWN, "ia32", "x32")]
    made = bills(guest, several, way)
    for one in made:
        assert isinstance(one.bill, Counts) and all(item.ns is None for item in one.bill.items)
        asked = {call.name: (call.count, call.repeats) for call in one.counted[0].calls if call.count >= TIMES}
        repeats = TIMES - 1 if way == "kernel" else 0
        assert list(asked.values()) == [(TIMES, repeats)], asked
    own, ia32, x32 = (names(one) for one in made)
    assert own == x32
    assert any(call.is_32 for call in made[1].counted[0].calls) and ia32["execve"] == 1
    printed = [block for block in blocks(made) if isinstance(block, str)]
    assert sum("the guest's clock is the emulator's" in block for block in printed) == 3
    assert sum("again in 49 of 50 calls" in block for block in printed) == (3 if way == "kernel" else 0)


def test_the_own_calls_of_x32_have_names(guest: Runner, folder: Path) -> None:
    """Of 512 and more: execve, rt_sigaction, set_robust_list."""
    made = bills(guest, [words(program(folder, "x32"), "vforks", 2)], "kernel")[0]
    own = [call for call in made.counted[0].calls if call.number >= 512]
    assert {"execve", "set_robust_list"} <= {call.name for call in own} and all(
        call.name for call in made.counted[0].calls
    )


def test_what_a_guest_cannot_start_is_said(guest: Runner, folder: Path) -> None:
    with pytest.raises(Failure, match="linked statically") as raised:
        billed(guest, [LINKED])
    assert raised.value.exit_code == 1
    with pytest.raises(Failure, match="have no blank"):
        billed(guest, [Words(program(folder, OWN), ("crossing", "by tes"))])


def test_a_guest_of_64_bit_arm_tells_its_32_bit_calls_from_its_own(folder: Path) -> None:
    need("qemu-system-aarch64")
    several = [words(program(folder, abi), "null_stats") for abi in ("aarch64", "arm-soft")]
    try:
        with runner_of("guest:virt", several) as runner:
            own, other = bills(runner, several, "kernel")
    except Failure as failure:
        pytest.skip(failure.sentence)
    assert [call.repeats for call in own.counted[0].calls if call.name == "newfstatat"] == [TIMES - 1]
    assert {call.name for call in other.counted[0].calls if not call.is_32} == {"execve"}


def test_numbers_that_are_sums_have_names() -> None:
    """As in the kernel's headers of ARM, in the process that counts there."""
    abi = known_abis(places.ROOT)["arm-hard"]
    if not isinstance(find_compiler(abi), str):
        pytest.skip("no compiler for arm-hard")
    built = bill_runner(places.ROOT, abi).read_bytes()
    assert all(name in built for name in (b"\0pciconfig_iobase\0", b"\0futex_time64\0"))
