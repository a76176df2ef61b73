# SPDX-License-Identifier: Apache-2.0
"""A board without an operating system: what traps there, who emulates it, and that its time repeats."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import runtime_objects, target_stands
from support.noisy_line import noisy_line
from tollmeter.model import Outcome, Point, Value, Visit
from tollmeter.protocol import outcome
from tollmeter.targets import boards
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.qemu_system import _ALWAYS, Guest, archive
from tollmeter.targets.serial_line import SerialLine
from tollmeter.toolchain.abis import read_abi
from tollmeter.toolchain.build import build_abi, find_compiler

COMPILER = "arm-linux-gnueabi-gcc-12"
FLAGS = (
    "-std=gnu11", "-O1", "-static", "-march=armv7-a+neon-vfpv3", "-marm", "-mfloat-abi=softfp",
    "-Wno-infinite-recursion",
)  # fmt: skip
BOARD, OTHER_BOARD = "bare:vexpress-a9", "bare:realview-pbx-a9"
SIGILL, SIGKILL, SIGSEGV = -4, -9, -11


@functools.cache
def _trapping(folder: Path) -> str:
    made = folder / "trapping"
    source = target_stands.ROOT / "tests/faults/trapping.c"
    subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(made)], check=True)
    return str(made)


def opened(name: str) -> Guest:
    target_stands.need(BOARDS[name].emulator, COMPILER)
    return Guest(name, target_stands.emulator_file(BOARDS[name].ours).parent)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guest, str]]:
    """A board with little memory, which a program fills in a second, and a program for it that traps as it is told."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setitem(boards.BOARDS, BOARD, BOARDS[BOARD]._replace(words=(*BOARDS[BOARD].words, "-m", "128")))
        target = opened(BOARD)
        try:
            yield target, _trapping(tmp_path_factory.mktemp("bare"))
        finally:
            target.close()


def last_words(target: Guest) -> str:
    return (target.scratch / "console").read_text().splitlines()[-1]


# ---- traps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "status", "said"),
    [
        ("accelerator", 0, "4.375, 0 handled"),
        ("remembered", 0, "0 0, then 4.375"),
        ("unknown", SIGILL, ""),
        ("caught", 0, "2 handled"),
        ("thumb", SIGILL, ""),
        ("caught-thumb", 0, "1 handled"),
        ("null", SIGSEGV, ""),
        ("supervisor", SIGSEGV, ""),
        ("accelerated-supervisor", SIGILL, ""),
        ("accelerated-null", SIGSEGV, ""),
        ("accelerated-pages", SIGKILL, "0"),
        ("text", SIGSEGV, ""),
        ("nowhere", SIGSEGV, ""),
        ("overflow", SIGSEGV, ""),
        ("alarm-and-fpu", 0, "3 handled, d16 = 2"),
        ("slept", 0, "2.500 s"),
        ("helpers", 0, "0 1 9, 0 1 3, version 5"),
        ("pages", SIGSEGV, "64 faults, then 0"),
        ("forked", 0, "-1, Function not implemented"),
    ],
)
def test_what_a_program_does_has_the_end_that_linux_gives_it(
    board: tuple[Guest, str], act: str, status: int, said: str
) -> None:
    """Twice, since the second must find nothing of the first."""
    target, program = board
    for _ in range(2):
        ended, output = target_stands.ended(target, program, act)
        assert (ended, output.decode().strip()) == (status, said)


# ---- probes -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def probes(_built_tree: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three probes for arm-fpa, in a tree of their own."""
    abi = read_abi(root / "abis/arm-fpa.toml")
    compiler = find_compiler(abi)
    if not isinstance(compiler, str):
        pytest.skip(compiler.reason)
    tree = tmp_path_factory.mktemp("arm") / "tree"
    shutil.copytree(_built_tree, tree)
    (tree / "probes/float").mkdir()
    headers = [str(path.relative_to(root / "probes")) for path in (root / "probes").glob("[fk]*/*.h")]
    for name in (
        "float/dot.cc",
        "float/dot.arm.S",
        "kernel/enter_syscall.c",
        "kernel/call_object.c",
        "kernel/custom_vectors.c",
        "kernel/custom_vectors.arm.S",
        *headers,
    ):
        shutil.copy2(root / "probes" / name, tree / "probes" / name)
    runtime_objects.lend(tree, abi.name)
    build_abi(tree, abi, compiler)
    runtime_objects.keep(tree, abi.name)
    return tree / "build" / abi.name


@pytest.fixture(scope="module")
def packed(board: tuple[Guest, str], probes: Path) -> Guest:
    """The board, booted once for all three probes."""
    board[0].prepare(
        [
            str(probes / name)
            for name in ("float.dot", "kernel.custom_vectors", "kernel.enter_syscall", "kernel.call_object")
        ]
    )
    return board[0]


def told(target: Guest | SerialLine, executable: Path, number: int = 5, **parameters: Value) -> Outcome:
    point = Point(executable.name, executable.parent.name, target.name, tuple(sorted(parameters.items())))
    visit = Visit(id=number, point=point, round=2, cpus=(0,), samples=3, sample_ns=200_000, seed=1, deadline_ms=20000)
    return outcome(target.run(str(executable), visit, 1))


def cost(back: Outcome) -> float:
    assert (back.status, back.clock.kind) == ("ok", "virtual"), back.reason
    return sorted((taken.body[1] - taken.body[0]) / taken.iterations for taken in back.samples)[1]


def dot(target: Guest, folder: Path, way: str, precision: str = "double", n: int = 64) -> Outcome:
    return told(target, folder / "float.dot", n=n, precision=precision, way=way)


def test_the_supervisor_emulates_and_the_programs_own_handler_is_never_called(packed: Guest, probes: Path) -> None:
    """The probe proves its own answers; it has a handler of SIGILL for where nobody else emulates."""
    for precision in ("float", "double"):
        assert cost(dot(packed, probes, "trapped", precision)) > 0
        found = re.search(r"handlers called (\d+), instructions emulated (\d+)", last_words(packed))
        assert found
        assert (int(found[1]), int(found[2]) > 64 * 4) == (0, True)
    trapped, library = (cost(dot(packed, probes, way)) for way in ("trapped", "emulated"))
    assert 2 < trapped / library < 20


def test_a_probe_that_needs_another_process_says_so(packed: Guest, probes: Path) -> None:
    words = ["channel=futex", "placement=one_cpu", "address_space=other"]
    back = outcome(target_stands.ended(packed, str(probes / "kernel.call_object"), *words)[1])
    assert (back.status, back.reason) == ("unsupported", "the system starts no process: Function not implemented")


@pytest.mark.parametrize("name", [BOARD, OTHER_BOARD])
def test_virtual_time_repeats_to_the_instruction(probes: Path, name: str) -> None:
    """Over two boots, and over two visits of one that were asked for in words of another length: where in a tick of the
    timer a batch begins is then another. What a row is made of: of a batch, without what each batch takes once."""

    def times(number: int) -> list[float]:
        target = opened(name)
        try:
            points = [("float.dot", {"n": 64, "precision": "double", "way": way}) for way in ("trapped", "emulated")]
            points.append(("kernel.custom_vectors", {"test": "object_same_address_space", "address": "memory"}))
            backs = [told(target, probes / probe, number * by, **at) for by in (1, 10) for probe, at in points]
            assert {back.status for back in backs} == {"ok"}
            return [taken.body[1] - taken.body[0] for back in backs for taken in back.samples]
        finally:
            target.close()

    first, second = times(1), times(12345)
    assert first == second
    assert first[: len(first) // 2] == first[len(first) // 2 :]


def test_a_board_is_timed_by_this_machine_over_the_line_of_its_records(probes: Path, tmp_path: Path) -> None:
    """Between its UART and the host. Here the emulator's time is the host's, and so both clocks tell of one."""
    chosen, executable = BOARDS[BOARD], probes / "kernel.enter_syscall"
    target_stands.need(chosen.emulator, COMPILER)
    first_files = tmp_path / "initramfs"
    first_files.write_bytes(archive({f"/{probes.name}/{executable.name}": executable.read_bytes()}))
    with noisy_line() as ends:
        ours = str(target_stands.emulator_file(chosen.ours))
        words = [
            chosen.emulator, *_ALWAYS, *chosen.words, "-kernel", ours, "-append", f"{chosen.command_line} clock=real",
            "-initrd", str(first_files), "-serial", "null", "-serial", ends.far,
        ]  # fmt: skip
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as emulator:
            try:
                line = f"serial:{ends.near}"
                with contextlib.closing(SerialLine(f"{line}+{line}", timed=True)) as target:
                    back = told(target, executable, call="getppid")
            finally:
                emulator.kill()
    assert (back.status, back.clock.kind, back.clock.source) == ("ok", "external", line), back.reason
    assert back.marks and (back.marks.lost, back.marks.doubled, back.marks.inserted) == (0, 0, 0)
    assert back.marks.empty_ns is not None and back.marks.own_ratio
    assert 0.1 < back.marks.own_ratio < 10


def test_custom_vectors_return_the_sooner_the_earlier_and_an_object_answers_from_its_own_map(
    packed: Guest, probes: Path
) -> None:
    """In instructions of the handlers' paths, to the last; the probe proves by the answer whose map it came from."""

    def of(test: str, address: str = "memory") -> float:
        return cost(told(packed, probes / "kernel.custom_vectors", test=test, address=address))

    loop, at_once, after_mode, compared = map(of, ("loop", "abort_at_once", "abort_after_mode", "abort_compared"))
    assert loop == 2
    assert loop < at_once < after_mode < compared
    assert of("abort_compared", "coprocessor") == compared - 1, "it keeps nothing"
    assert of("object_same_address_space") < of("object_other_address_space")
    back = told(packed, probes / "kernel.enter_syscall", call="getppid")
    assert back.status == "ok", "the vectors were given back"


# ---- boot loaders -------------------------------------------------------------------------------------------------

BEGIN, END, PROPERTY, LAST = 1, 2, 3, 9


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)


def device_tree() -> bytes:
    """The least that QEMU adds to: numbers of one cell, and nodes for the memory and for what is chosen."""
    texts = b"#address-cells\0#size-cells\0"

    def node(name: bytes, *inside: bytes) -> bytes:
        return struct.pack(">I", BEGIN) + _padded(name + b"\0") + b"".join(inside) + struct.pack(">I", END)

    cells = b"".join(struct.pack(">IIII", PROPERTY, 4, texts.index(name), 1) for name in (b"#address", b"#size"))
    structure = node(b"", cells, node(b"chosen")) + struct.pack(">I", LAST)
    start, no_reserved = 40, bytes(16)
    at_structure, at_texts = start + 16, start + 16 + len(structure)
    total = at_texts + len(texts)
    header = (0xD00DFEED, total, at_structure, at_texts, start, 17, 16, 0, len(texts), len(structure))
    return struct.pack(">10I", *header) + no_reserved + structure + texts


def test_it_reads_a_device_tree_as_well_as_tags(
    board: tuple[Guest, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "board.dtb"
    tree.write_bytes(device_tree())
    before = BOARDS[BOARD]
    monkeypatch.setitem(boards.BOARDS, BOARD, before._replace(words=(*before.words, "-dtb", str(tree))))
    target = opened(BOARD)
    try:
        assert target_stands.ended(target, board[1], "accelerator")[1].decode().strip() == "4.375, 0 handled"
    finally:
        target.close()
