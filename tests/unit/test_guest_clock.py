# SPDX-License-Identifier: Apache-2.0
"""By which clock a guest runs: the hardware's where this CPU can run it, an emulator's count everywhere else."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tollmeter.model import Clock, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.targets import boards, ways
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.qemu_system import Guest

EMULATOR = """#!/bin/sh
echo "$*" >> {folder}/started
case "$*" in *"-accel kvm"*) {with_kvm} ;; esac
echo "guest ready"
while read -r line; do echo "$line" >> {folder}/told; printf '\\nguest ended 0\\n'; done
"""


@pytest.fixture
def able(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CPU with virtualization of its own, and its device. Gives the list of its flags."""
    cpu, device = tmp_path / "cpuinfo", tmp_path / "kvm"
    cpu.write_text("processor\t: 0\nflags\t\t: fpu svm sse2\n")
    device.touch()
    monkeypatch.setattr(boards, "_CPU", cpu)
    monkeypatch.setattr(boards, "KVM", device)
    return cpu


def guest(folder: Path, monkeypatch: pytest.MonkeyPatch, with_kvm: str = ":") -> Guest:
    """With an emulator that only says what a guest would."""
    emulator = folder / BOARDS["guest:x32"].emulator
    emulator.write_text(EMULATOR.format(folder=folder, with_kvm=with_kvm))
    emulator.chmod(0o755)
    image = folder / "tollmeter/kernels/linux-image-amd64/image"
    image.parent.mkdir(parents=True)
    for path in (image, folder / "init.x86_64", folder / "probe"):
        path.touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return Guest("guest:x32", folder)


def started(folder: Path) -> list[str]:
    return (folder / "started").read_text().splitlines()


def visit(wall_ms: int = 0) -> Visit:
    point = Point(probe="kernel.enter", abi="x86_64", target="guest:x32")
    return Visit(
        id=5, point=point, round=2, cpus=(0,), samples=16, sample_ns=300_000, seed=1, deadline_ms=20_000,
        wall_ms=wall_ms,
    )  # fmt: skip


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this CPU runs no guest of x86-64")
@pytest.mark.parametrize(
    ("flags", "device", "clock"),
    [("fpu svm", True, "hardware"), ("fpu vmx", True, "hardware"), ("fpu", True, "virtual"), ("svm", False, "virtual")],
)
def test_a_guest_has_the_hardware_s_clock_where_the_cpu_runs_it(
    flags: str, device: bool, clock: Clock, able: Path
) -> None:
    able.write_text(f"flags : {flags}\n")
    if not device:
        boards.KVM.unlink()
    assert ways.clock_of("guest:x32") == clock
    assert ways.clock_of("guest:vexpress-a9") == ways.clock_of("bare:vexpress-a9") == "virtual"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this CPU runs no guest of x86-64")
@pytest.mark.usefixtures("able")
def test_by_hardware_nothing_stands_for_time_and_visits_are_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = guest(tmp_path, monkeypatch)
    target.run(str(tmp_path / "probe"), visit(), 1)
    target.close()
    (line,) = started(tmp_path)
    assert "-accel kvm" in line and "-icount" not in line and "TOLL_CLOCK" not in line
    assert "--samples=16 --sample-ns=300000" in (tmp_path / "told").read_text()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this CPU runs no guest of x86-64")
@pytest.mark.usefixtures("able")
def test_one_that_does_not_come_up_so_is_emulated_and_says_so_to_its_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = guest(tmp_path, monkeypatch, with_kvm="exit 1")
    for _ in range(2):
        target.run(str(tmp_path / "probe"), visit(), 1)
    target.close()
    first, second = started(tmp_path)
    assert "-accel kvm" in first
    assert "-icount" in second and "TOLL_CLOCK=virtual" in second
    assert "--samples=3 --sample-ns=4000000" in (tmp_path / "told").read_text()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this CPU runs no guest of x86-64")
@pytest.mark.usefixtures("able")
def test_one_that_came_up_by_hardware_never_changes_its_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = guest(tmp_path, monkeypatch, with_kvm=f"[ ! -e {tmp_path}/broken ] || exit 1")
    target.run(str(tmp_path / "probe"), visit(), 1)
    (tmp_path / "broken").touch()
    target._stop()
    back = outcome(target.run(str(tmp_path / "probe"), visit(), 1))
    target.close()
    assert (back.status, all("-accel kvm" in line for line in started(tmp_path))) == ("infrastructure", True)


def test_the_budget_bounds_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "KVM", tmp_path / "none")
    target = guest(tmp_path, monkeypatch)
    (tmp_path / BOARDS["guest:x32"].emulator).write_text("#!/bin/sh\nexec sleep 30\n")
    target.prepare([str(tmp_path / "probe")], 0.2)
    back = outcome(target.run(str(tmp_path / "probe"), visit(), 1))
    target.close()
    assert (back.status, "no end within 0." in (back.reason or "")) == ("timeout", True)


def test_a_visit_that_the_budget_cuts_short_in_a_guest_is_an_interrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "KVM", tmp_path / "none")
    target = guest(tmp_path, monkeypatch)
    (tmp_path / BOARDS["guest:x32"].emulator).write_text("#!/bin/sh\necho guest ready\nexec sleep 30\n")
    target.prepare([str(tmp_path / "probe")])
    back = outcome(target.run(str(tmp_path / "probe"), visit(wall_ms=200), 1))
    target.close()
    assert (back.status, back.reason) == ("interrupted", "the budget ended before it did")
