# SPDX-License-Identifier: Apache-2.0
"""Misaligned accesses and copies: every shape has a number or a sentence, and every routine copies what it should."""

from __future__ import annotations

import itertools
import os
import platform
import resource
import shutil
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from probes.visiting import (
    ROOT,
    all_points,
    asked_of,
    build_broken,
    cost,
    describe,
    executable,
    in_turns,
    visit,
    visits,
)
from support.waiting import LONG_S
from tollmeter.catalog import Executable
from tollmeter.library.profiling import ProfilePoint, take_all
from tollmeter.model import Abi, Build, Outcome, Point, Value
from tollmeter.protocol import outcome
from tollmeter.targets.profiling_visit import ProfileRequest

NO_BUILD = Build(probe="", abi="", compiler="", flags="")
NOBODY = 65534
X86 = platform.machine() in ("x86_64", "i686")
BREAKS = (
    (
        "alignment/access.c",
        "EIGHT(IN_PLACE(word4) = (word4)value);",
        "EIGHT(IN_PLACE(word2) = (word2)value);",
        {"op": "store", "width": 4},
    ),
    ("alignment/copy.c", "copy->source, copy->bytes);\n}", "copy->source, copy->bytes + 1);\n}", {"routine": "bytes"}),
    (
        "alignment/checksum.c",
        "return sum_words(NULL, data, bytes);",
        "return (uint16_t)~sum_words(NULL, data, bytes);",
        {"routine": "copy_then_sum", "offset": 1},
    ),
    ("alignment/header.c", "return first | second << 16;", "return first | second << 15;", {"way": "halves"}),
)
BROKEN_MERGE = (
    ("alignment/routines.h", "return first >> shift", "return first >> 1 >> shift"),
    ("alignment/copy.c", "", ""),
)


@pytest.mark.parametrize(("name", "where"), [(name, where) for name, _, _, where in BREAKS])
def test_a_broken_probe_has_no_number(broken: Path, own_abi_name: str, name: str, where: dict[str, Value]) -> None:
    done = visit(own_abi_name, name.rpartition(".")[0].replace("/", "."), root=broken, samples=1, **where)
    assert done.status == "wrong_answer"


def test_a_routine_that_merges_wrongly_has_no_number(tmp_path: Path, own_abi: Abi, own_compiler: str) -> None:
    build_broken(tmp_path, own_abi, own_compiler, BROKEN_MERGE)
    wrong, right = (
        visit(own_abi.name, "alignment.copy", root=tmp_path, samples=1, routine="shift_merge", source=source)
        for source in (1, 0)
    )
    assert (wrong.status, right.status) == ("wrong_answer", "ok")


def test_every_shape_of_access_has_a_number_or_a_sentence(abi: str) -> None:
    done = visits(abi, "alignment.access", all_points(describe(abi, "alignment.access")))
    assert all(one.status == "ok" or (one.status == "unsupported" and one.reason) for one in done)
    assert {one.point.values()["op"] for one in done if one.status == "ok"} >= {"load", "store", "chain"}


def test_what_straddles_nothing_is_not_measured_as_if_it_did(abi: str) -> None:
    for offset in (0, 4, 8):
        done = visit(abi, "alignment.access", width=4, offset=offset, where="split_line", op="load")
        assert done.status == "unsupported"


@pytest.mark.machine
@pytest.mark.skipif(not X86, reason="elsewhere an atomic across two lines is refused")
def test_an_atomic_across_two_lines_costs_many_times_one_within(abi: str) -> None:
    within, across = (
        visit(abi, "alignment.access", width=4, offset=offset, where=where, op="atomic")
        for offset, where in ((0, "in_line"), (1, "split_line"))
    )
    if across.status == "unsupported":
        pytest.skip(str(across.reason))
    assert cost(across) > 5 * cost(within)


@pytest.mark.machine
def test_a_chain_costs_more_than_independent_loads(abi: str) -> None:
    chain, load = in_turns(
        *(
            partial(visit, abi, "alignment.access", width=4, offset=0, where="in_line", op=op)
            for op in ("chain", "load")
        )
    )
    assert cost(chain) > 2 * cost(load)


def check_copies(abi: str, points: Iterable[dict[str, Value]]) -> None:
    for done in visits(abi, "alignment.copy", asked_of(abi, points)):
        expected = "unsupported" if done.point.values()["routine"] == "string" and not X86 else "ok"
        assert done.status == expected, done.point


def test_every_routine_copies_every_offset(abi: str) -> None:
    points = [point for point in all_points(describe(abi, "alignment.copy")) if point["bytes"] == 64]
    assert {(point["source"], point["target"]) for point in points} == {*itertools.product(range(8), repeat=2)}
    check_copies(abi, points)


def test_short_and_odd_lengths_are_copied_whole(abi: str) -> None:
    points = [
        point | {"bytes": length}
        for point in all_points(describe(abi, "alignment.copy"))
        if point["bytes"] == 64 and point["source"] in (1, 3) and point["target"] in (0, 6)
        for length in (1, 2, 7, 8, 9, 15, 17, 31)
    ]
    check_copies(abi, points)


@pytest.mark.machine
def test_words_else_bytes_falls_off_a_cliff_and_merging_words_does_not(abi: str) -> None:
    def cliff(routine: str) -> float:
        aligned, off = in_turns(
            *(partial(visit, abi, "alignment.copy", routine=routine, source=source, bytes=1500) for source in (0, 1))
        )
        return cost(off) / cost(aligned)

    assert cliff("words_else_bytes") > 1.5 * cliff("bytes")
    assert cliff("words_else_bytes") > 1.3 * cliff("unaligned_words")


def test_bytes_are_what_the_rate_is_made_of(abi: str) -> None:
    for length in (64, 9000):
        assert visit(abi, "alignment.copy", bytes=length, samples=1).work.bytes == length


def test_every_sum_is_right_at_every_offset_and_length(abi: str) -> None:
    points = [
        point | {"bytes": length}
        for point in all_points(describe(abi, "alignment.checksum"))
        if point["bytes"] == 64
        for length in (1, 2, 3, 4, 5, 63, 1500, 65535)
    ]
    for done in visits(abi, "alignment.checksum", points):
        assert done.status == "ok", (done.point, done.reason)


def test_no_datagram_is_longer_than_its_length_field_can_say(abi: str) -> None:
    assert visit(abi, "alignment.checksum", bytes=65536).status == "unsupported"


@pytest.mark.machine
def test_a_fused_copy_costs_less_than_a_copy_and_then_a_sum(abi: str) -> None:
    fused, apart = in_turns(
        *(
            partial(visit, abi, "alignment.checksum", routine=one, bytes=9000)
            for one in ("copy_and_sum", "copy_then_sum")
        )
    )
    assert cost(fused) < cost(apart)


@pytest.mark.parametrize("way", ["overlay", "packed", "halves", "copy", "shifted", "trapped"])
def test_every_way_reads_the_header(abi: str, way: str) -> None:
    done = visit(abi, "alignment.header", way=way)
    assert done.status == "ok" or (done.status == "unsupported" and not X86), done.reason


@pytest.mark.machine
@pytest.mark.skipif(not X86, reason="elsewhere a program cannot ask for alignment traps")
def test_a_trapped_header_costs_many_times_a_copied_one(abi: str) -> None:
    trapped, copied = in_turns(*(partial(visit, abi, "alignment.header", way=way) for way in ("trapped", "copy")))
    assert cost(trapped) > 20 * cost(copied)


@pytest.mark.skipif(not X86, reason="elsewhere a load may trap, and a kernel mend it")
def test_where_nothing_traps_there_is_nothing_to_mend(abi: str) -> None:
    done = visit(abi, "alignment.fix_up", width=4, offset=1)
    assert (done.status, "nothing traps" in str(done.reason)) == ("unsupported", True)


# ---- a TCP stack behind a 14-byte header ----------------------------------------------------------------------------

WAYS = ("overlay", "packed", "halves", "copy", "shifted")


def receive(abi: str, way: str, **parameters: Value) -> Outcome:
    """Skips where the set-up could not fetch lwIP's source: no test needs a network."""
    done = visit(abi, f"alignment.receive_path_{way}", **parameters)
    if done.status == "unsupported" and "LWIP_SOURCE" in str(done.reason):
        pytest.skip(str(done.reason))
    return done


@pytest.mark.machine
@pytest.mark.parametrize("fault", ["drop", "corrupt", "reorder", "short", "lying"])
def test_data_arrives_whole_over_a_wire_that_spoils_frames(own_abi_name: str, fault: str) -> None:
    for way in ("copy", "shifted"):
        done = receive(own_abi_name, way, fault=fault, copy="libc")
        assert done.status == "ok", done.reason
        assert 0.002 < done.gauges["spoilt"] < 0.05


def test_every_way_and_routine_receives_what_was_sent(own_abi_name: str) -> None:
    for way in WAYS:
        for copy in ("words_else_bytes", "halfwords", "shift_merge"):
            done = receive(own_abi_name, way, copy=copy, samples=1)
            assert (done.status, done.gauges["spoilt"]) == ("ok", 0.0), done.reason


@pytest.mark.machine
def test_the_sender_and_the_receiver_alone_are_both_ends(own_abi_name: str) -> None:
    """Each leaves out what the other takes, and a copy out of a frame is the receiver's alone."""

    def of_ends(ends: str, copy: str = "halfwords") -> partial[Outcome]:
        return partial(receive, own_abi_name, "halves", copy=copy, ends=ends, samples=10)

    both, sender, receiver, slow_sender, slow_receiver = in_turns(
        *(of_ends(ends) for ends in ("both", "sender", "receiver")), of_ends("sender", "bytes"),
        of_ends("receiver", "bytes"),
    )  # fmt: skip
    assert 0.85 < (cost(sender) + cost(receiver)) / cost(both) < 1.2
    assert cost(slow_receiver) / cost(receiver) > 1.1 * cost(slow_sender) / cost(sender)


@pytest.mark.machine
@pytest.mark.skipif(not X86, reason="what a misaligned byte loop loses is another CPU's elsewhere")
def test_receiving_aligned_gains_where_memcpy_falls_to_bytes_and_nowhere_else(own_abi_name: str) -> None:
    points = [(copy, way) for copy in ("words_else_bytes", "libc") for way in ("halves", "shifted")]
    done = in_turns(*(partial(receive, own_abi_name, way, copy=copy, samples=10) for copy, way in points))
    costs = dict(zip(points, map(cost, done), strict=True))

    def gain(copy: str) -> float:
        return costs[copy, "halves"] / costs[copy, "shifted"]

    assert gain("words_else_bytes") > 1.15 * gain("libc")


@pytest.mark.machine
def test_a_checksum_that_lets_damage_pass_has_no_number(tmp_path: Path, own_abi: Abi, own_compiler: str) -> None:
    if not (ROOT / "build/libraries/lwip").exists():
        pytest.skip("lwIP's source is not here: `make set-up-tests` tells why")
    shutil.copytree(ROOT / "probes/alignment/lwip", tmp_path / "probes/alignment/lwip")
    blind = ("alignment/lwip/lwipopts.h", "#define NO_SYS ", "#define CHECKSUM_CHECK_TCP 0\n#define NO_SYS ")
    build_broken(tmp_path, own_abi, own_compiler, [blind, ("alignment/receive_path_packed.c", "", "")])
    done = visit(own_abi.name, "alignment.receive_path_packed", root=tmp_path, fault="corrupt", samples=40)
    assert done.status == "wrong_answer"


@pytest.mark.machine
def test_a_profile_finds_the_routine_that_copies_by_either_sampler(own_abi_name: str) -> None:
    path = executable(own_abi_name, "alignment.copy")
    point = Point(
        probe="alignment.copy", abi=own_abi_name, target="local", parameters=(("routine", "bytes"), ("bytes", 1500))
    )
    for by_signal in (False, True):
        made = Executable(path=str(path), probe=describe(own_abi_name, "alignment.copy"), build=NO_BUILD)
        found = take_all([ProfilePoint(point, made)], ProfileRequest(300, by_signal))[0]
        assert found.reason is None and found.part("copy_bytes") > 0.5, found


@pytest.mark.machine
def test_what_is_compared_while_the_watch_stands_still_is_not_in_the_profile(own_abi_name: str) -> None:
    probe = "alignment.receive_path_packed"
    receive(own_abi_name, "packed", samples=1)
    values = (("copy", "halfwords"), ("checksum", "halfwords"), ("fault", "none"))
    point = Point(probe=probe, abi=own_abi_name, target="local", parameters=values)
    made = Executable(path=str(executable(own_abi_name, probe)), probe=describe(own_abi_name, probe), build=NO_BUILD)
    found = take_all([ProfilePoint(point, made)], ProfileRequest(400))[0]
    compared = sum(share.hits for share in found.shares if "memcmp" in share.function or "memset" in share.function)
    assert found.reason is None and compared < found.hits / 100, found


@pytest.mark.machine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody who may lock no memory")
def test_where_the_sampler_s_ring_is_refused_a_signal_samples(own_abi_name: str) -> None:
    def as_nobody() -> None:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)

    with executable(own_abi_name, "alignment.copy").open("rb") as program:
        told = subprocess.run(
            [f"/proc/self/fd/{program.fileno()}", "routine=bytes"], env={"TOLL_PROFILE": "50"}, capture_output=True,
            check=False, timeout=LONG_S, preexec_fn=as_nobody, pass_fds=(program.fileno(),),
        )  # fmt: skip
    assert told.returncode == 0 and b'"source":"SIGPROF"' in told.stdout, told


# ---- traps that a handler makes good --------------------------------------------------------------------------------


@pytest.mark.skipif(not X86, reason="elsewhere the CPU traps by itself, or never")
def test_a_hundred_thousand_traps_give_a_hundred_thousand_right_values(abi: str, own_abi_name: str) -> None:
    """Visit after visit, since a loud neighbour makes each shorter; each value is compared, and each trap counted. Of
    further ABIs, whose handlers are of the same source, a tenth."""
    most = 100_000 if abi == own_abi_name else 10_000
    words = ["--samples=8", "--sample-ns=20000000", "op=trapped", "width=4", "offset=1", "where=in_line"]
    traps = 0
    while traps < most:
        told = subprocess.run(
            [executable(abi, "alignment.access"), *words], capture_output=True, check=True, timeout=LONG_S
        )
        done = outcome(told.stdout)
        assert done.status == "ok", done.reason
        traps += sum(3 * 8 * sample.iterations for sample in done.samples)


def test_a_handler_that_gathers_the_wrong_bytes_has_no_number(tmp_path: Path, own_abi: Abi, own_compiler: str) -> None:
    address = "(uintptr_t)saved[ALIGN_TRAP_REGISTER(CX)]"
    wrong = ("alignment/align_trap.h", address, f"1 + {address}")
    build_broken(tmp_path, own_abi, own_compiler, [wrong, ("alignment/access.c", "", "")])
    where: dict[str, Value] = {"op": "trapped", "width": 4, "offset": 1, "where": "in_line"}
    done = visit(own_abi.name, "alignment.access", root=tmp_path, samples=1, **where)
    assert done.status == "wrong_answer"


def test_the_kernel_s_own_tcp_has_a_number_or_says_what_is_refused(own_abi_name: str) -> None:
    for setting in ("usual", "no_offloads", "mtu_576"):
        done = visit(own_abi_name, "alignment.receive_kernel", setting=setting, samples=1)
        assert done.status == "ok" or (done.status == "unsupported" and "refused here" in str(done.reason)), done
