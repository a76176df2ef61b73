# SPDX-License-Identifier: Apache-2.0
"""A modelled cache: told apart from what is measured, with its assumption; and what its model loads."""

from __future__ import annotations

import mmap
import platform
import subprocess
from pathlib import Path

import msgspec
import pytest

from support import builders
from support.rendered import screens
from support.waiting import LONG_S
from tollmeter.catalog import Executable
from tollmeter.library.looking import model
from tollmeter.library.places import ROOT, suites
from tollmeter.library.profiling import ProfilePoint
from tollmeter.model import Build, CacheModel, Modelled, Point, Published, Results, Select, Suite
from tollmeter.report.blocks import Table
from tollmeter.report.length_sections import sections
from tollmeter.store.request import store_records, stored_records
from tollmeter.targets.qemu_user import emulator_here, emulator_lack
from unit import test_report_lengths as rates

CACHE = CacheModel(bytes=16384, line=32, ways=64, assumed="Its ways are assumed.", select=(Select(probe="float.dot"),))
WALK = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
  volatile unsigned *page = mmap(0, 24, PROT_READ | PROT_WRITE, MAP_SHARED, open(words[1], O_RDWR), 0);
  volatile char *bytes = aligned_alloc(64, 1 << 16);
  const int size = atoi(words[2]);
  for (int turn = 0; turn < 6; turn++) {
    page[4] = turn >= 2;
    for (int i = 0; i < size; i += 32) bytes[i];
    if (count > 3) syscall(SYS_getppid);
  }
  page[4] = 0;
}
"""


def told(way: str, n: int, misses: float) -> Modelled:
    parameters: dict[str, str | int] = {"n": n, "precision": "double", "way": way}
    return Modelled(
        probe="float.dot", abi="arm-soft", target="qemu-user:arm", parameters=parameters, misses=misses, flushes=0
    )


def results() -> Results:
    bare = rates.results(rates.counted())
    modelled = (told("emulated", 1024, 0.0), told("emulated", 16384, 0.25), told("trapped", 1024, 3.5))
    suite = Suite(
        name="s", question="Which?", select=CACHE.select, modelled=CACHE, published=(Published(what="w", figure="f"),)
    )
    return msgspec.structs.replace(bare, index=msgspec.structs.replace(bare.index, modelled=modelled), suite=suite)


def test_modelled_misses_stand_in_a_table_of_their_own() -> None:
    (section,) = sections(results())
    rates, *_, modelled = (block for block in section.blocks if isinstance(block, Table))
    assert [line.cells for line in modelled.rows] == [
        ("arm-soft emulated", "0", "0.250"),
        ("arm-soft trapped", "3.50", "–"),
    ]
    assert "modelled" in modelled.columns[0].name
    assert "modelled" not in rates.columns[0].name


def test_every_output_names_them_modelled_with_what_is_assumed() -> None:
    for text in screens(results()):
        assert "modelled misses an operation" in text
        assert "Its ways are assumed." in text


def test_they_are_kept_beside_the_journal(tmp_path: Path) -> None:
    assert stored_records(tmp_path, Modelled) == ()
    store_records(tmp_path, Modelled, [told("emulated", 16, 1.0)])
    assert list(stored_records(tmp_path, Modelled)) == [told("emulated", 16, 1.0)]


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [(["8192"], 0, 40), (["32768"], 2000, 4 * 1024 + 40), (["8192", "traps"], 4 * 256, 4 * 256 + 200)],
)
def test_the_model_loads_what_does_not_fit_or_was_flushed(
    root: Path, tmp_path: Path, words: list[str], least: int, most: int
) -> None:
    """Four turns of one load for each line."""
    if lacking := emulator_lack("x86_64"):
        pytest.skip(lacking[0])
    emulator = emulator_here("x86_64")
    (tmp_path / "walk.c").write_text(WALK)
    subprocess.run(["cc", "-O1", "-static", "-o", tmp_path / "walk", tmp_path / "walk.c"], check=True)
    subprocess.run(["make", "-s", "build/emulator/misses.so"], cwd=root, check=True)
    (tmp_path / "page").write_bytes(bytes(mmap.PAGESIZE))
    plugin = f"{root}/build/emulator/misses.so,gate={tmp_path}/page,report={tmp_path}/told,bytes=16384,line=32,ways=64"
    subprocess.run(
        [*emulator, "-plugin", plugin, tmp_path / "walk", tmp_path / "page", *words], check=True, timeout=LONG_S
    )
    assert least <= int((tmp_path / "told").read_text().split()[1]) <= most


@pytest.mark.parametrize(("precision", "fits"), [("float", 2048), ("double", 1024)])
def test_the_study_s_cache_overflows_where_two_vectors_fill_it(own_abi_name: str, precision: str, fits: int) -> None:
    """16 KiB: a dot product of doubles overflows it between 1,024 and 2,048, and none does so only past 4,096."""
    place = f"qemu-user:{platform.machine()}"
    if lacking := emulator_lack(platform.machine()):
        pytest.skip(lacking[0])
    (suite,) = [suite for suite in suites().values() if suite.modelled]
    assert suite.modelled
    known = [select.parameters for select in suite.modelled.select if select.probe == "float.dot"]
    assert precision in [str(parameters["precision"]) for parameters in known]

    def misses(n: int) -> float:
        parameters = (("n", n), ("precision", precision), ("way", "hardware"))
        point = Point(probe="float.dot", abi=own_abi_name, target=place, parameters=parameters)
        build = Build(probe="float.dot", abi=own_abi_name, compiler="", flags="", sha256="", size_bytes=0)
        path = str(ROOT / "build" / own_abi_name / "float.dot")
        executable = Executable(path=path, probe=builders.probe(builders.metric("rate")), build=build)
        told = model(ProfilePoint(point, executable), suite.modelled)
        assert told.misses is not None, told.reason
        return told.misses

    assert misses(2 * fits) > 3 * misses(fits)
    assert misses(4 * fits) < 1.5 * misses(2 * fits)
