# SPDX-License-Identifier: Apache-2.0
"""ABI files: ours and a person's own, what each lacks here, and what cannot be meant."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import msgspec
import pytest

from support import runtime_objects
from support.fake_catalog import catalog
from tollmeter import extras
from tollmeter.library import places
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Failure, Select
from tollmeter.targets import boards, qemu_user, ways
from tollmeter.targets.cpu_features import cpu_lack, features_in
from tollmeter.targets.local import is_run_here
from tollmeter.toolchain import abis, brought_compilers, ready

ROOT = Path(__file__).parents[2]
LOOP = {"kernel.loop"}
MINE = """
summary = "mine"
compiler = ["{compiler}"]
flags = ["-O1"]
packages = ["my-compiler"]
runs_on = ["x86_64", "aarch64"]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person's own ABI files; the person stands somewhere else."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(extras, "_packages_of_release", frozenset)  # which has no my-compiler
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = tmp_path / "tollmeter/abis"
    folder.mkdir(parents=True)
    return folder


def test_a_persons_own_file_is_found_beside_ours(root: Path, own: Path) -> None:
    (own / "mine.toml").write_text(MINE.format(compiler="gcc"))
    found = abis.known_abis(root)
    assert found["mine"].summary == "mine"
    assert {"x86_64", "arm-soft", "s390x"} <= set(found)
    assert not abis.refused_abis(root)


def test_a_file_that_means_nothing_is_named_and_keeps_no_other_away(root: Path, own: Path) -> None:
    (own / "typo.toml").write_text(MINE.format(compiler="gcc") + 'colour = "red"\n')
    (own / "attribute.toml").write_text(MINE.format(compiler="gcc") + "[elf]\nshape = 3\n")
    (own / "x86_64.toml").write_text(MINE.format(compiler="gcc"))
    (own / "mine.toml").write_text(MINE.format(compiler="gcc"))
    known, refused = abis.known_abis(root), abis.refused_abis(root)
    assert set(refused) == {"typo", "attribute", "x86_64"}
    assert "colour" in refused["typo"]
    assert "shape" in refused["attribute"]
    assert str(own) in refused["x86_64"]
    assert "mine" in known and "typo" not in known


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('floats = "hrad"', ["floats is 'hrad'", "hard, soft, fpa"]),
        ('sumary = "s"', ["unknown key 'sumary'", "summary, compiler"]),
        ('runs = ["nativ"]', ["runs names 'nativ'", "native, qemu-user:ARCH, guest:x32"]),
        ('runs = ["guest:malt"]', ["runs names 'guest:malt'", "guest:malta"]),
        ('[elf]\norder = "litle"', ["order = 'litle'", "little, big"]),
        ("[elf]\nclass = 16", ["class = 16", "32, 64"]),
        ('[elf]\nfp_arch = "VFP9"', ["fp_arch = 'VFP9'", "0, VFPv1"]),
    ],
)
def test_a_wrong_word_is_answered_with_the_file_and_the_valid_words(
    tmp_path: Path, line: str, words: list[str]
) -> None:
    own = "" if "runs" in line else 'runs = ["native"]\n'
    (tmp_path / "mine.toml").write_text(f'summary = "s"\ncompiler = ["gcc"]\n{own}{line}\n')
    with pytest.raises(Failure) as raised:
        abis.read_abi(tmp_path / "mine.toml")
    assert all(part in raised.value.sentence for part in ("mine.toml", *words)), raised.value.sentence


def test_an_abi_that_fails_keeps_no_other_from_being_made(tree: Path, own: Path, said: list[str]) -> None:
    (own / "typo.toml").write_text("colour = 1\n")
    (own / "absent.toml").write_text(MINE.format(compiler="no-such-compiler"))
    (own / "mine.toml").write_text(MINE.format(compiler="gcc"))
    runtime_objects.lend(tree, "mine")
    failures = ready.make_ready(tree, dict.fromkeys(["typo", "absent", "mine"], LOOP))
    assert set(failures) == {"typo", "absent"}
    assert failures["typo"].exit_code == 2
    assert "apt-get update && apt-get install --no-install-recommends my-compiler" in failures["absent"].sentence
    assert (tree / "build/mine/kernel.loop.describe").is_file()
    assert [line.partition(": ")[0] for line in said] == ["built kernel.loop for mine"]
    runtime_objects.keep(tree, "mine")
    said.clear()
    assert ready.make_ready(tree, {"mine": LOOP}) == {}
    assert not said, "nothing has changed, and it was made again"


def test_the_cpu_of_an_emulator_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_user, "emulator_lack", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/{name}")
    assert qemu_user.emulator_here("arm") == ["/qemu-arm"]
    assert qemu_user.emulator_here("arm:ti925t") == ["/qemu-arm", "-cpu", "ti925t"]
    assert qemu_user.emulator_of("arm:-cpu max") is None


def test_the_abi_of_the_page_is_added_by_its_file_alone_and_measures(tree: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/add-an-abi.md").read_text()
    found = re.search(r"^A whole file, `abis/(\S+)\.toml`:\n\n((?: {4}.*\n|\n)+)", page, re.MULTILINE)
    assert found, "docs/add-an-abi.md has no whole file"
    (tree / f"abis/{found[1]}.toml").write_text(textwrap.dedent(found[2]))
    abi = abis.read_abi(tree / f"abis/{found[1]}.toml")
    if not is_run_here(abi):
        pytest.skip(f"{cpu_lack(abi) or 'another CPU runs it'}: {found[1]}")
    for part in ("src", "suites", "probes/libraries.toml", "probes/index.jsonl"):
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy2)(ROOT / part, tree / part)
    words = ["run", "kernel.loop", "--abi", abi.name, "--budget", "5s", "--precision", "20%", "--out", tmp_path / "run"]
    runtime_objects.lend(tree, abi.name)
    told = subprocess.run(
        [sys.executable, "-m", "tollmeter", *words, "--format", "json"],
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "TOLL_INSTALL": "no"}, cwd=tree, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (tree / "build" / abi.name / "kernel.loop.describe").is_file(), told.stderr
    runtime_objects.keep(tree, abi.name)
    rows = [row for row in json.loads(told.stdout)["rows"] if row["abi"] == abi.name]
    assert rows and not {row["status"] for row in rows} & {"failed", "wrong"}, told.stdout
    assert any(row["visits"] for row in rows)


def test_what_the_cpu_lacks_is_told_before_anything_is_compiled(tree: Path, own: Path) -> None:
    (own / "mine.toml").write_text('requires = ["warp-drive"]\n' + MINE.format(compiler="gcc"))
    failures = ready.make_ready(tree, {"mine": LOOP})
    assert failures["mine"].sentence == "mine: this CPU has no warp-drive"
    assert not (tree / "build/mine").exists()
    (row,) = [one for one in abis.survey_abis(tree, platform.machine()) if one.name == "mine"]
    assert row.target is None and "this CPU has no" in (row.missing or "")
    assert not is_run_here(abis.known_abis(tree)["mine"])


@pytest.mark.parametrize(
    ("cpuinfo", "named"),
    [
        ("flags\t\t: fpu sse2 avx2\nflags\t\t: fpu sse2\n", {"fpu", "sse2"}),
        ("isa\t\t: rv64imafdcv_zicsr_zba\n", {*"imafdcv", "zicsr", "zba"}),
        ("Features\t: fp asimd sve\n", {"fp", "asimd", "sve"}),
        ("cpu family : 6\n", set()),
    ],
)
def test_features_are_those_that_every_cpu_has(cpuinfo: str, named: set[str]) -> None:
    assert features_in(cpuinfo) == named


def test_what_is_missing_is_said_with_its_mend(tree: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy2(ROOT / "abis/s390x.toml", tree / "abis")
    (own / "absent.toml").write_text(MINE.format(compiler="no-such-compiler"))
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if "qemu" in name else real(name, **more))
    told = {one.name: one for one in abis.survey_abis(tree, "x86_64")}
    assert (told["absent"].compiler, told["absent"].mend) == (
        None,
        "apt-get update && apt-get install --no-install-recommends my-compiler",
    )
    assert (told["s390x"].target, told["s390x"].clock) == (None, None)
    assert "qemu-user" in (told["s390x"].mend or "")
    assert "qemu-s390x" in (told["s390x"].missing or "")


def test_each_kind_of_place_has_its_own_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "KVM", tmp_path / "none")
    names = ("local", "qemu-user:arm", "guest:x32", "bare:vexpress-a9", "ssh:board")
    assert [ways.clock_of(name) for name in names] == ["hardware", "instructions", "virtual", "virtual", "hardware"]


def test_an_emulator_without_plugins_is_reported_and_no_package_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 13 has static ones alone."""
    emulator = tmp_path / "qemu-pdp11"
    for linked, lacking in (("-static", True), ("-no-pie", False)):
        subprocess.run(["cc", linked, "-x", "c", "-", "-o", emulator], input=b"int main(void){}", check=True)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        found = ways.lack("qemu-user:pdp11")
        assert (found is not None and "plugin" in found.reason and found.packages == ()) == lacking
        with pytest.raises(Failure, match="plugin" if lacking else "not built"):
            ways.open_target("qemu-user:pdp11", tmp_path)


@pytest.mark.parametrize(
    "name", ["", "lokal", "guest:atari", "bare:x32", "qemu", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:"]
)
def test_a_name_that_is_no_targets_is_refused_as_usage(name: str, tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        ways.open_target(name, tmp_path)
    assert caught.value.exit_code == 2


def test_an_emulator_that_is_named_alone_is_the_abis_own(root: Path) -> None:
    known = abis.known_abis(root)
    assert ways.for_abi("qemu-user", known["arm-hard"]) == "qemu-user:arm"
    assert ways.for_abi("guest", known["arm-hard"]) == "guest:vexpress-a9"
    assert ways.for_abi("bare", known["arm-hard"]) == "bare:vexpress-a9"
    assert ways.for_abi("ssh:board", known["arm-hard"]) == "ssh:board"
    with pytest.raises(Failure):
        ways.for_abi("guest", known["s390x"])


def test_a_target_leaves_out_abis_that_were_not_named_and_do_not_run_there() -> None:
    loaded = catalog(abis=("x86_64", "arm-hard"))
    placed = places._placed(loaded, ["bare"], ["arm-hard"])
    assert placed.abis == ("arm-hard",) and not placed.gaps
    assert {(key[1], made.target, made.also) for key, made in placed.executables.items()} == {
        ("arm-hard", "bare:vexpress-a9", ())
    }
    with pytest.raises(Failure, match=r"x86_64: x86_64\.toml names no bare"):
        places._placed(catalog(abis=("x86_64",)), ["bare"], [])


def test_of_several_targets_each_abi_takes_those_that_run_it() -> None:
    loaded = catalog(abis=("x86_64", "arm-hard"))
    elsewhere = {key for key in loaded.executables if key[1] == "arm-hard"}
    executables = {
        key: msgspec.structs.replace(made, target="qemu-user:arm") if key in elsewhere else made
        for key, made in loaded.executables.items()
    }
    loaded = msgspec.structs.replace(loaded, executables=executables)
    placed = places._placed(loaded, ["local", "bare", "ssh:board"], ["x86_64", "arm-hard"])
    assert {(key[1], made.target, made.also) for key, made in placed.executables.items()} == {
        ("x86_64", "local", ("ssh:board",)),
        ("arm-hard", "bare:vexpress-a9", ("ssh:board",)),
    }
    assert not placed.gaps
    assert "names no bare" in places._placed(loaded, ["bare"], ["x86_64", "arm-hard"]).gaps["x86_64"]


def test_beside_an_abi_that_only_a_guest_runs_its_baselines_run_there_too() -> None:
    """By default, and here as well: x32 against x86-64 is a ratio of two rows of one place."""
    loaded = catalog(abis=("x86_64", "ia32", "x32", "arm-hard"))
    where = {"x32": "guest:x32"}
    could = dict.fromkeys(("x86_64", "ia32", "x32"), ("guest:x32",))
    made = {
        key: msgspec.structs.replace(one, target=where.get(key[1], "local"), could=could.get(key[1], ()))
        for key, one in loaded.executables.items()
    }
    loaded = msgspec.structs.replace(loaded, executables=made)
    joined = places._also_in_guests(loaded, ["x86_64", "x32", "arm-hard"])
    assert {abi: (one.target, *one.also) for (_, abi), one in joined.executables.items()} == {
        "x86_64": ("local", "guest:x32"),
        "ia32": ("local",),
        "x32": ("guest:x32",),
        "arm-hard": ("local",),
    }
    alone = places._also_in_guests(loaded, ["x86_64", "ia32"])
    assert not any(one.also for one in alone.executables.values())


def test_of_two_guests_an_abi_runs_in_the_one_that_the_other_abi_has_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "lack", lambda _: None)

    def guests(*named: str) -> set[tuple[str, ...]]:
        placed = places._with_others(catalog(abis=named), named).executables.values()
        return {tuple(way for way in one.could if way.startswith("guest:")) for one in placed}

    assert guests("aarch64", "arm-hard") == {("guest:virt",)}
    assert guests("arm-hard") == guests("arm-soft", "arm-hard") == {("guest:vexpress-a9",)}


def test_what_is_asked_for_by_its_whole_name_is_tried() -> None:
    """Its file may know less than the person."""
    known = abis.known_abis(ROOT)["x86_64"]
    assert ways.targets_for(["qemu-user:i386"], known, runs_here=True) == ("qemu-user:i386",)
    assert ways.targets_for(["local", "qemu-user:i386"], known, runs_here=True) == ("local",)


def test_an_abi_that_is_built_only_where_it_is_named_is_named_by_a_counterpart_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    asked = ProbeRequest([Select(probe="*")], against=("ia32-x87", "size=1"))
    assert [abi.name for abi in places._selected_abis(asked, [])] == ["ia32-x87"]


def test_a_name_that_is_no_abis_is_refused_before_the_others_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for work in ("install_compilers", "install_for", "make_ready"):
        monkeypatch.setattr(places, work, lambda *_: pytest.fail("something was made first"))
    with pytest.raises(Failure, match="arm-soft") as caught:
        places.made_ready(["x86_64", "arm-sft"], [], ProbeRequest([Select(probe="*")]))
    assert caught.value.exit_code == 2


def test_the_target_of_an_abi_does_not_depend_on_the_building_user(tree: Path, own: Path) -> None:
    text = MINE.format(compiler="gcc").replace('["x86_64", "aarch64"]', '["none"]')
    (own / "mine.toml").write_text(text + 'runs = ["native", "ssh:first", "ssh:second"]\n')
    (tree / "build").mkdir(exist_ok=True)
    (tree / "build/mine.target").write_text("ssh:second\n")
    runtime_objects.lend(tree, "mine")
    assert not ready.make_ready(tree, {"mine": LOOP}, ["ssh:second"])
    runtime_objects.keep(tree, "mine")
    assert (tree / "build/mine.target").read_text() == "ssh:first\n"


# ---- a compiler from PyPI -----------------------------------------------------------------------------------------

ZIG = """
summary = "clang's, with musl"
compiler = [["ziglang", "-target", "{triple}"]]
flags = ["{flag}"]
runs_on = ["{cpu}"]
runs = ["native", "qemu-user:arm"]
[elf]
class = {bits}
machine = "{machine}"
"""
ZIG_X86 = ZIG.format(triple="x86_64-linux-musl", flag="-mcpu=x86_64", cpu="x86_64", bits=64, machine="EM_X86_64")
ZIG_ARM = ZIG.format(
    triple="arm-linux-musleabi", flag="-mcpu=generic+v7a+soft_float", cpu="armv7l", bits=32, machine="EM_ARM"
)


@pytest.mark.parametrize("allowed", [True, False])
def test_zig_is_installed_when_an_abi_needs_it_and_installing_is_permitted(
    tree: Path, own: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    (own / "zigged.toml").write_text(ZIG_X86)
    monkeypatch.setattr(extras, "is_installed", lambda _: False)
    monkeypatch.setenv("TOLL_INSTALL", "yes" if allowed else "no")
    brought: list[Path] = []
    monkeypatch.setattr(brought_compilers, "install_zig", brought.append)
    (row,) = [one for one in abis.survey_abis(tree, "x86_64") if one.name == "zigged"]
    mend = brought_compilers.ZIG_EXTRA.mend
    assert (row.compiler, row.missing, row.mend) == (None, "ziglang is not installed", mend.strip("`"))
    assert not brought, "looking installs nothing"
    failures = ready.make_ready(tree, {"zigged": LOOP})
    assert mend in failures["zigged"].sentence
    assert brought == ([tree] if allowed else [])


def test_what_has_no_hash_is_not_installed(tmp_path: Path) -> None:
    about = "toll_trial-1.dist-info"
    with zipfile.ZipFile(tmp_path / "toll_trial-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: toll-trial\nVersion: 1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    (tmp_path / "requirements").mkdir(exist_ok=True)
    (tmp_path / brought_compilers.ZIG_EXTRA.lock).write_text("--no-index\n--find-links ..\ntoll-trial==1\n")
    with pytest.raises(Failure, match=r"[Hh]ash") as caught:
        brought_compilers.install_zig(tmp_path)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(("name", "text"), [("zig-x86", ZIG_X86), ("zig-arm", ZIG_ARM)])
def test_zig_builds_what_is_verified_and_run(tree: Path, own: Path, name: str, text: str) -> None:
    """Its C library is compiled at the first time, which takes a minute or two."""
    if not extras.is_installed(brought_compilers.ZIG_EXTRA):
        pytest.skip(f"no ziglang here: {brought_compilers.ZIG_EXTRA.mend}")
    if name == "zig-arm" and shutil.which("qemu-arm") is None:
        pytest.skip("no qemu-arm here")
    (own / f"{name}.toml").write_text(text)
    shutil.copytree(ROOT / "emulator", tree / "emulator")
    (tree / "tests").mkdir()
    shutil.copy2(ROOT / "tests/tests.mk", tree / "tests")
    (tree / "probes/float").mkdir()
    for path in ("dot.cc", "vectors.h", "ways.h"):
        shutil.copy2(ROOT / "probes/float" / path, tree / "probes/float")
    assert ready.make_ready(tree, {name: {"kernel.loop", "float.dot"}}) == {}
    assert {path.name for path in (tree / "build" / name).glob("*.describe")} == {
        "kernel.loop.describe", "float.dot.describe",
    }  # fmt: skip


def test_what_an_abi_with_musl_lacks_is_first_its_compiler_and_then_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abi = abis.read_abi(ROOT / "abis/sparc-v8.toml")
    monkeypatch.setattr(brought_compilers, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    gap = abis.find_compiler(abi)
    assert isinstance(gap, abis.Lack)
    assert (gap.packages, brought_compilers.can_make_musl(abi.compiler)) == (abi.packages, False)

    (tmp_path / brought_compilers.MUSL_COMPILER).write_text("#!/bin/sh\n")
    (tmp_path / brought_compilers.MUSL_COMPILER).chmod(0o755)
    gap = abis.find_compiler(abi)
    assert isinstance(gap, abis.Lack)
    assert brought_compilers.can_make_musl(abi.compiler)
    assert (gap.packages, gap.mend) == ((), brought_compilers.MUSL_MEND)
