# SPDX-License-Identifier: Apache-2.0
"""Profiles: addresses to functions, also those that were inlined; two side by side, and what changed in words."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from support.rendered import of_blocks
from support.snapshots import approve
from support.waiting import LONG_S
from tollmeter.catalog import Executable
from tollmeter.library import profiling
from tollmeter.library.profiling import LEAST_TURNS, ProfilePoint, take_all
from tollmeter.model import Build, Failure, Point, Probe, Profile, Share
from tollmeter.protocol import seal
from tollmeter.report.blocks import Block, heading
from tollmeter.report.profiles import profile_table, side_by_side, source_of
from tollmeter.store.request import KEPT, store_records, stored_records
from tollmeter.targets.child import Ended
from tollmeter.targets.profiling_visit import ProfileRequest, profiled
from tollmeter.toolchain.symbols import UNKNOWN, KernelSymbols, Symbols

SOURCE = """
static inline __attribute__((always_inline)) int inner(volatile int *at) { return *at * 3 + *at; }
__attribute__((noinline)) int outer(volatile int *at) {
  int sum = 0;
  for (int i = 0; i < 9; i++) sum += inner(at);
  return sum;
}
int main(void) { volatile int seven = 7; return outer(&seven); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("symbols")
    (folder / "it.c").write_text(SOURCE)
    words = ["gcc", "-O2", "-g1", "-static", "-no-pie", "-o", "it", "it.c"]
    subprocess.run(words, cwd=folder, check=True, timeout=LONG_S)
    return folder / "it"


def address_of(program: Path, symbol: str) -> int:
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^(\w+) \w {symbol}$", listed, re.MULTILINE)
    assert found
    return int(found[1], 16)


def test_an_address_is_its_function_s_and_that_which_was_inlined_there(program: Path) -> None:
    symbols, begin = Symbols(program), address_of(program, "outer")
    inside = [at for at in range(begin, begin + 200) if symbols.function(at) == "outer"]
    assert inside and inside == list(range(begin, begin + len(inside)))
    assert {symbols.inlined(at) for at in inside} == {None, "inner"}
    assert symbols.function(address_of(program, "memcpy")) != UNKNOWN
    assert symbols.function(1) == UNKNOWN


def test_the_kernel_s_code_in_a_process_is_not_the_program_s_last_function(program: Path) -> None:
    """`_fini` is assembly without a length: a reading of the clock in the vDSO was called by its name."""
    symbols = Symbols(program)
    assert symbols.function(address_of(program, "_fini")) == "_fini"
    assert symbols.function(0x7FFF_F7FC_1000) == UNKNOWN


def profile(shares: dict[str, int], ns: float = 100.0, source: str = "perf cpu-clock") -> Profile:
    return Profile(
        probe="any.probe", abi="x86_64", target="local", parameters={}, source=source, operation_ns=ns,
        shares=tuple(Share(function=name, hits=hits, inlined={"inner": hits // 2}) for name, hits in shares.items()),
    )  # fmt: skip


def within(of: Profile, share: float | None) -> Profile:
    shares = tuple(msgspec.structs.replace(one, within=share) for one in of.shares)
    return msgspec.structs.replace(of, shares=shares)


HALF, OTHER = profile({"copy": 50, "sum": 50}), profile({"copy": 30, "sum": 60, "align": 10}, ns=80.0)
LESS, COUNTED = profile({"copy": 44, "sum": 56}), profile({"copy": 50}, source="instructions")
FIRST, SECOND = profile({"copy": 70, "sum": 30}), profile({"copy": 50, "sum": 50})
SLOWER = profile({"copy": 30}, ns=100.0, source="SIGPROF")
PAIRS: dict[str, tuple[Profile, Profile, float | None]] = {
    "by how many points a share changed": (HALF, OTHER, None),
    **{f"no more digits than are known within {share}": (within(FIRST, share), within(SECOND, share), None)
       for share in (None, 0.0, 0.4, 1.6, 3.4)},
    "a change beyond its error": (within(HALF, 2.0), within(LESS, 2.0), None),
    "a change within its error is not reported": (within(HALF, 5.0), within(LESS, 5.0), None),
    "two that are alike": (HALF, HALF, None),
    "two counts that are alike": (COUNTED, COUNTED, None),
    "other counts": (COUNTED, profile({"copy": 30}, ns=80.0, source="instructions"), None),
    "a gain of rows, of which there are many, and not of one visit": (profile({"copy": 50}, ns=80.0), SLOWER, 1.25),
}  # fmt: skip


def test_profiles_alone_and_side_by_side() -> None:
    blocks: list[Block] = [heading("alone"), profile_table(profile({"copy": 750, "sum": 249, "rare": 1}))]
    for title, (left, right, gain) in PAIRS.items():
        blocks += [heading(title), *side_by_side(left, right, ("a", "b"), gain=gain)]
    approve("profiles", of_blocks(blocks))


# ---- taking one -----------------------------------------------------------------------------------------------------


def told(monkeypatch: pytest.MonkeyPatch, program: Path, *records: dict[str, object]) -> Profile:
    """What comes of a stream, as if an executable had printed it."""
    stream = seal([{"k": "visit", "work": {"operations": 4}}, *records])
    monkeypatch.setattr(profiling, "profiled", lambda *_: Ended(stream, 0, None))
    probe = Probe(probe="any.probe", question="?", revision=1, metrics=())
    built = Executable(
        path=str(program), probe=probe, build=Build(probe="any.probe", abi="x86_64", compiler="", flags="")
    )
    return take_all([ProfilePoint(Point(probe="any.probe", abi="x86_64", target="local"), built)], ProfileRequest(1))[0]


def test_records_of_one_profile_are_one(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    outer, start = address_of(program, "outer"), address_of(program, "main")
    record = {"k": "profile", "source": "SIGPROF", "hits": [[outer, 3]]}
    last = {
        "k": "profile",
        "source": "SIGPROF",
        "hits": [[start, 2]],
        "kernel": 5,
        "lost": 1,
        "iterations": 10,
        "ns": 4000,
    }
    found = told(monkeypatch, program, record, last)
    shares = [(share.function, share.hits / LEAST_TURNS) for share in found.shares]
    assert shares == [("(kernel)", 5), ("outer", 3), ("main", 2)]
    assert (found.source, found.lost, found.operation_ns, found.reason) == ("SIGPROF", LEAST_TURNS, 100.0, None)


def test_samples_in_the_kernel_are_named_where_it_shows_its_addresses(
    monkeypatch: pytest.MonkeyPatch, program: Path, tmp_path: Path
) -> None:
    kernel: dict[str, object] = {"k": "profile", "source": "perf cpu-clock", "kernel_hits": [[0xFF20, 3], [0xFF40, 1]]}
    last: dict[str, object] = {"k": "profile", "source": "perf cpu-clock", "hits": [], "kernel": 4, "sees_kernel": True}
    shown = {
        "open": "000000000000ff10 T enter\n000000000000ff38 t pay\t[mod]\n000000000000ff39 d no_code\n",
        "hidden": "0000000000000000 T enter\n0000000000000000 t pay\n",
    }
    said = {}
    for name, text in shown.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(profiling, "_kernel", lambda path=tmp_path / name: KernelSymbols(path))
        found = told(monkeypatch, program, kernel, last)
        said[name] = found.shares[0].inlined, source_of(found)
    assert said["open"][0] == {"enter": 3 * LEAST_TURNS, "pay": LEAST_TURNS} and "kallsyms" not in said["open"][1]
    assert said["hidden"][0] == {} and "kallsyms" in said["hidden"][1]
    assert "perf_event_paranoid" in source_of(told(monkeypatch, program, {**last, "sees_kernel": False}))


def test_what_others_had_of_the_cpu_is_not_in_the_time_of_an_operation(
    monkeypatch: pytest.MonkeyPatch, program: Path
) -> None:
    """The wall's time counts them in: on a busy machine what is faster came out as slower."""
    counted: dict[str, object] = {"kernel": 1, "sees_kernel": True, "lost": 1, "iterations": 10, "ns": 4_000_000}
    hits = [[address_of(program, "outer"), 6]]
    record = {"k": "profile", "source": "perf cpu-clock", "period_ns": 1000, "hits": hits} | counted
    assert told(monkeypatch, program, record).operation_ns == 200.0
    assert told(monkeypatch, program, {**record, "sees_kernel": False}).operation_ns == 100_000.0


def test_what_was_skipped_says_why(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    assert told(monkeypatch, program, {"k": "skip", "reason": "no timer here"}).reason == "no timer here"
    assert "ended before" in (told(monkeypatch, program).reason or "")


def test_where_no_sampler_is_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="has no sampler"):
        profiled("guest:x32", ["any"], ProfileRequest(1), tmp_path)


def test_profiles_are_kept_beside_the_journal(tmp_path: Path) -> None:
    assert list(stored_records(tmp_path, Profile)) == []
    store_records(tmp_path, Profile, [profile({"copy": 1})])
    assert list(stored_records(tmp_path, Profile)) == [profile({"copy": 1})]
    (tmp_path / "profiles.json").write_text("{")
    with pytest.raises(Failure):
        stored_records(tmp_path, Profile)


def test_profiles_in_a_folder_from_elsewhere_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / f".{KEPT}.half").symlink_to(tmp_path / "precious")
    (tmp_path / KEPT).symlink_to(tmp_path / "precious")
    store_records(tmp_path, Profile, [profile({"f": 3})])
    assert (tmp_path / "precious").read_text() == "mine"
    assert len(stored_records(tmp_path, Profile)) == 1
    for what in (os.mkfifo, lambda path: path.write_bytes(b"[" * 100_000)):
        (tmp_path / KEPT).unlink()
        what(tmp_path / KEPT)
        with pytest.raises(Failure, match=KEPT) as caught:
            stored_records(tmp_path, Profile)
        assert caught.value.exit_code == 5


def test_a_profile_that_was_stored_with_the_former_name_of_a_state_is_read(tmp_path: Path) -> None:
    store_records(tmp_path, Profile, [msgspec.structs.replace(profile({"f": 3}), state="contended"), profile({"f": 1})])
    path = tmp_path / KEPT
    present = path.read_text(encoding="utf-8")
    path.write_text(present.replace('"contended"', '"shared"').replace('"uncontended"', '"whole"'), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != present
    assert [one.state for one in stored_records(tmp_path, Profile)] == ["contended", profile({"f": 1}).state]
