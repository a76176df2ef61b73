# SPDX-License-Identifier: Apache-2.0
"""A guest's clock, by the hardware where this CPU can run it, its kernel, by a package of Debian, and its first file
system. Emulator and apt are programs that only print what the real ones would."""

from __future__ import annotations

import io
import platform
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollmeter.model import Clock, Failure, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.targets import boards, ways
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.debian_kernel import fetched_kernel, newest
from tollmeter.targets.qemu_system import Guest, archive

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


@pytest.fixture
def emulated(able: Path) -> None:
    """A CPU without virtualization."""
    able.write_text("")


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


@pytest.mark.usefixtures("emulated")
def test_the_budget_bounds_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = guest(tmp_path, monkeypatch)
    (tmp_path / BOARDS["guest:x32"].emulator).write_text("#!/bin/sh\nexec sleep 30\n")
    target.prepare([str(tmp_path / "probe")], 0.2)
    back = outcome(target.run(str(tmp_path / "probe"), visit(), 1))
    target.close()
    assert (back.status, "no end within 0." in (back.reason or "")) == ("timeout", True)


@pytest.mark.usefixtures("emulated")
def test_a_visit_that_the_budget_cuts_short_in_a_guest_is_an_interrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = guest(tmp_path, monkeypatch)
    (tmp_path / BOARDS["guest:x32"].emulator).write_text("#!/bin/sh\necho guest ready\nexec sleep 30\n")
    target.prepare([str(tmp_path / "probe")])
    back = outcome(target.run(str(tmp_path / "probe"), visit(wall_ms=200), 1))
    target.close()
    assert (back.status, back.reason) == ("interrupted", "the budget ended before it did")


SMALL, WHOLE = "kernel-image-6.1.0-50-amd64-di", "linux-image-6.1.0-56-amd64"
APT = """#!/bin/sh
echo "$*" >> {folder}/asked
case "$*" in
  *--print-uris*) echo "'http://debian.example/debian/dists/bookworm/InRelease' InRelease 0" ;;
  *pkgnames*) cat $(echo "$*" | sed 's/.*sourcelist=\\([^ ]*\\).*/\\1/') > {folder}/sources; cat {folder}/names ;;
  *depends*) printf 'linux-image-amd64\\n  Depends: {whole}\\n' ;;
  *download*)
    for name in "$@"; do :; done
    test -e {folder}/$name || {{ echo "E: 404 of $name" >&2; exit 100; }}
    cp {folder}/$name ./$name.udeb ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    scripts = {"apt-get": APT, "apt-cache": APT, "dpkg": '#!/bin/sh\ncat "$2"\n'}
    for name, script in scripts.items():
        path = tmp_path / name
        path.write_text(script.format(folder=tmp_path, whole=WHOLE))
        path.chmod(0o755)
    (tmp_path / "names").write_text(f"kernel-image-6.1.0-9-amd64-di\n{SMALL}\nkernel-image-6.1.0-50-armmp-di\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def package(path: Path, image: str, content: bytes) -> None:
    with tarfile.open(path, "w") as packed:
        member = tarfile.TarInfo(f"./boot/{image}")
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))


def kernel() -> bytes:
    wanted = BOARDS["guest:x32"].kernel
    assert wanted
    return fetched_kernel(wanted).read_bytes()


def test_the_installers_package_is_taken_which_is_an_eighth_of_the_other(folder: Path) -> None:
    package(folder / SMALL, "vmlinuz", b"small")
    package(folder / WHOLE, f"vmlinuz-{WHOLE}", b"whole")
    assert kernel() == b"small"
    assert " http://debian.example/debian bookworm main/debian-installer" in (folder / "sources").read_text()
    assert WHOLE not in (folder / "asked").read_text()


@pytest.mark.parametrize("names", [SMALL, ""])
def test_where_that_cannot_be_had_the_whole_package_is(folder: Path, names: str) -> None:
    (folder / "names").write_text(names)
    package(folder / WHOLE, f"vmlinuz-{WHOLE}", b"whole")
    assert kernel() == b"whole"
    assert "sourcelist" not in (folder / "asked").read_text().splitlines()[-1], "by the system's own sources"


@pytest.mark.usefixtures("folder")
def test_where_neither_can_be_had_the_reason_names_it() -> None:
    with pytest.raises(Failure) as caught:
        kernel()
    assert f"cannot download {WHOLE}: E: 404" in caught.value.sentence


def test_the_newest_is_by_its_number_and_not_by_its_letters() -> None:
    assert newest(["linux-image-amd64", "Depends:", "linux-image-6.1.0-9-amd64", WHOLE]) == WHOLE
    assert newest(["linux-image-6.9.1-amd64", "linux-image-6.12.1-amd64"]) == "linux-image-6.12.1-amd64"
    assert newest(["linux-image-amd64"]) is None


def entries(packed: bytes) -> list[tuple[str, int, bytes]]:
    """Name, mode and content of each entry; believes nothing about alignment."""
    found, at = [], 0
    while True:
        assert packed[at : at + 6] == b"070701"
        numbers = [int(packed[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = numbers[1], numbers[6], numbers[11]
        name = packed[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        begin = -(-(at + 110 + name_size) // 4) * 4
        content = packed[begin : begin + size]
        assert len(content) == size
        if name == b"TRAILER!!!\0":
            return found
        found.append((name[:-1].decode(), mode, content))
        at = -(-(begin + size) // 4) * 4


@given(st.dictionaries(st.from_regex(r"/(a|b|c)/[a-z]{1,9}", fullmatch=True), st.binary(max_size=50), max_size=6))
def test_what_is_packed_is_found_with_its_folders_in_front(programs: dict[str, bytes]) -> None:
    found = entries(archive(programs, ("/dev",)))
    files = {f"/{name}": content for name, mode, content in found if mode == 0o100755}
    folders = [name for name, mode, _ in found if mode == 0o040755]
    assert files == programs
    assert "dev" in folders
    names = [name for name, _, _ in found]
    for path in programs:
        parent = path.strip("/").split("/")[0]
        assert names.index(parent) < names.index(path.strip("/"))
