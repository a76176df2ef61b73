# SPDX-License-Identifier: Apache-2.0
"""ABI files that say nonsense are refused; what was built is what they promise; only what changed is built again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import shutil
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from support import runtime_objects, target_stands
from tollmeter.catalog import left_out_of_builds
from tollmeter.model import Abi, Failure
from tollmeter.protocol import description
from tollmeter.targets import Lack
from tollmeter.toolchain import accepting, build, proven
from tollmeter.toolchain.abis import ANY_CPU, for_cpu, read_abi, read_abis
from tollmeter.toolchain.build import Task, build_abi, build_several, find_compiler
from tollmeter.toolchain.ready import build_sentence

GOOD = 'summary = "s"\ncompiler = ["cc"]\n[elf]\nclass = 64\n'
SECOND = """#include "toll.h"
static void nothing(struct toll_run *r) { TOLL_USE(r); }
static enum toll_status check(struct toll_run *r) { return r ? TOLL_OK : TOLL_FAILED; }
const struct toll_probe toll_probe = {
    .question = "What does nothing cost?",
    .metrics = (const struct toll_metric[]){{.name = "time", .unit = "ns", .summary = "nothing"}, {0}},
    .body = nothing,
    .check = check,
    .revision = 1,
};
"""
OBJECT = """#include "toll.h"
extern "C" const char helper[];
struct object { virtual uint64_t ask() const { return (uintptr_t)helper; } };
static const struct object object;
static void ask(struct toll_run *) { const struct object *one = &object; TOLL_OPAQUE(one); TOLL_USE(one->ask()); }
static enum toll_status check(struct toll_run *) { return TOLL_OK; }
static const struct toll_metric metrics[] = {{"time", "ns", TOLL_LESS, "one call", TOLL_BODY, nullptr, nullptr}, {}};
static struct toll_probe described() {
  struct toll_probe probe = {};
  probe.question = "And an object?";
  probe.metrics = metrics;
  probe.body = ask;
  probe.check = check;
  probe.revision = 1;
  return probe;
}
const struct toll_probe toll_probe = described();
"""


def test_every_abi_file_can_be_read_and_promises_something(root: Path) -> None:
    abis = read_abis(root / "abis")
    assert {"x86_64", "x86_64-musl", "ia32", "aarch64", "native"} <= set(abis)
    assert all(abi.elf for abi in abis.values() if ANY_CPU not in abi.runs_on)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GOOD.replace("summary", "sumary"), "sumary"),
        (GOOD.replace("class", "clas"), "clas"),
        (GOOD.replace('["cc"]', '"cc"'), "compiler"),
        (GOOD.replace('["cc"]', '["cc; true"]'), "cc; true"),
        (f"flags = ['-DA=\"b\"']\n{GOOD}", "-DA"),
        (GOOD.replace("=", ":"), "bad.toml"),
        (f'{GOOD}machine = "EM_PDP11"\n', "no ELF machine EM_PDP11 is known; known: EM_X86_64, "),
    ],
)
def test_a_bad_abi_file_is_refused_with_what_is_wrong(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(Failure, match=named) as caught:
        read_abi(path)
    assert "bad.toml" in caught.value.sentence
    assert caught.value.exit_code == 2


def test_a_cpu_gets_its_own_abis_and_any_other_the_general_one(root: Path) -> None:
    """The files of today and one more: those of tomorrow change no answer for another CPU."""
    known = read_abis(root / "abis")
    mine = msgspec.structs.replace(known["x86_64"], name="an-x86_64")
    unasked = msgspec.structs.replace(mine, name="unasked", asked_only=True)
    native, *others = (abi.name for abi in for_cpu([*known.values(), mine, unasked], "x86_64"))
    assert native == "x86_64" and {mine.name, "ia32", "x86_64-musl"} <= {*others}
    assert unasked.name not in others and others == sorted(others)
    assert next(abi.name for abi in for_cpu(known.values(), "aarch64")) == "aarch64"
    assert [abi.name for abi in for_cpu(known.values(), "a cpu of tomorrow")] == ["native"]


def test_the_builtins_of_another_machine_are_never_linked(own_abi: Abi) -> None:
    cross = msgspec.structs.replace(own_abi, elf={}, runs_on=("a cpu of tomorrow",))
    own = msgspec.structs.replace(cross, runs_on=(platform.machine(),))
    arm = msgspec.structs.replace(cross, elf={"machine": "EM_ARM"})
    words = [build._words(abi, "cc", []) for abi in (cross, own, arm)]
    architectures = [next(word for word in several if word.startswith("ARCH=")) for several in words]
    assert architectures == ["ARCH=", f"ARCH={platform.machine()}", "ARCH=arm"]


def test_a_compiler_that_is_missing_or_cannot_is_a_gap_that_says_why(own_abi: Abi, own_compiler: str) -> None:
    nowhere = msgspec.structs.replace(own_abi, compiler=("no-such-compiler",), packages=("some-package",))
    gap = find_compiler(nowhere)
    assert isinstance(gap, Lack)
    assert "no-such-compiler" in gap.reason
    assert gap.packages == ("some-package",)
    helpless = find_compiler(msgspec.structs.replace(own_abi, flags=("-include", "/no/such/header.h")))
    assert isinstance(helpless, Lack)
    assert "/no/such/header.h" in helpless.reason
    second = find_compiler(msgspec.structs.replace(own_abi, compiler=("no-such-compiler", own_compiler)))
    assert second == own_compiler


def test_a_refused_flag_is_corrected_in_the_file_and_by_no_package(own_abi: Abi, own_compiler: str) -> None:
    own = msgspec.structs.replace(own_abi, name="own", compiler=(own_compiler,), packages=("some-package",))
    gap = find_compiler(msgspec.structs.replace(own, flags=("-fno-such-flag",)))
    assert isinstance(gap, Lack)
    assert "-fno-such-flag" in gap.reason
    assert (gap.packages, gap.mend) == ((), "mend its flags in own.toml")
    # The compiler that the file means is another, which a package would bring.
    other = msgspec.structs.replace(own, compiler=("no-such-compiler", own_compiler), flags=("-fno-such-flag",))
    gap = find_compiler(other)
    assert isinstance(gap, Lack)
    assert "some-package" in gap.mend


def test_a_compiler_of_no_package_is_not_promised_by_one(own_abi: Abi) -> None:
    gap = find_compiler(msgspec.structs.replace(own_abi, name="own", compiler=("no-such-compiler",), packages=()))
    assert isinstance(gap, Lack)
    assert gap.mend == "install it, or name another compiler in own.toml"


def test_a_build_reports_one_progress_count_over_all_abis(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    """Also while it compiles, and up to the last file: one count, whatever the number of ABIs."""
    for name in ("kernel/loop.c", "runtime/emit.c"):
        _changed(tree / "probes" / name)
    other = msgspec.structs.replace(own_abi, name="other")
    runtime_objects.lend(tree, "other", of=own_abi.name)
    counted: list[tuple[int, int]] = []
    tasks = [Task(abi, own_compiler, ["kernel.loop"]) for abi in (own_abi, other)]
    build_several(tree, tasks, lambda *now: counted.append(now))
    (total,) = {of for _, of in counted}
    assert [done for done, _ in counted] == list(range(1, total + 1))
    assert total >= 2 * 4, "two objects, the archive and the executable of each"


def test_an_executable_is_static_described_and_fingerprinted(tree: Path, own_abi: Abi) -> None:
    folder = tree / "build" / own_abi.name
    executable = folder / "kernel.loop"
    said = subprocess.run([executable, "--describe"], capture_output=True, check=True).stdout
    assert (folder / "kernel.loop.describe").read_bytes() == said
    probe, build = description(said)
    assert (probe.probe, build.abi) == ("kernel.loop", own_abi.name)
    assert set(own_abi.flags) <= set(build.flags.split())
    (told,) = json.loads((folder / "manifest.json").read_text()).values()
    content = executable.read_bytes()
    assert (told["sha256"], told["size_bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))


def test_two_builds_in_two_folders_give_the_same_files(
    tree: Path, tmp_path: Path, own_abi: Abi, own_compiler: str
) -> None:
    """Of C, C++ and assembly, each with what a debugger reads. The first has objects of the runtime that were compiled
    elsewhere."""
    _add_object(tree)
    copy = Path(shutil.copytree(tree, tmp_path / "in a longer folder", ignore=shutil.ignore_patterns("build")))
    made = []
    for folder in (tree, copy):
        build_abi(folder, own_abi, own_compiler)
        assert not left_out_of_builds(folder / "build")
        built = folder / "build" / own_abi.name
        assert description((built / "other.object.describe").read_bytes())[0].question == "And an object?"
        made.append([proven.fingerprint((built / probe).read_bytes()) for probe in ("kernel.loop", "other.object")])
    assert made[0] == made[1]


def test_what_did_not_change_is_not_built_again(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    executable = tree / "build" / own_abi.name / "kernel.loop"
    before = executable.stat().st_mtime_ns
    made = build_abi(tree, own_abi, own_compiler)
    assert executable.stat().st_mtime_ns == before
    assert not made and not build_sentence({own_abi.name: made})


def test_what_changed_is_built_again(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    executable = tree / "build" / own_abi.name / "kernel.loop"
    before = executable.stat().st_mtime_ns
    source = tree / "probes/kernel/loop.c"
    _changed(source)
    os.utime(source, (0, 0))
    made = build_abi(tree, own_abi, own_compiler)
    assert executable.stat().st_mtime_ns > before
    assert made == ["kernel.loop"]
    assert build_sentence({own_abi.name: made}) == f"built kernel.loop for {own_abi.name}"


def test_a_changed_source_of_the_runtime_is_in_the_executable_whatever_its_time(
    tree: Path, own_abi: Abi, own_compiler: str
) -> None:
    """As a copy that keeps times brings it."""
    source = tree / "probes/runtime/emit.c"
    text = source.read_text()
    source.write_text(f'{text}\n__attribute__((used)) static const char planted[] = "planted by a test";\n')
    os.utime(source, (0, 0))
    build_abi(tree, own_abi, own_compiler)
    executable = tree / "build" / own_abi.name / "kernel.loop"
    assert b"planted by a test" in executable.read_bytes()
    source.write_text(text)
    os.utime(source, (0, 0))
    build_abi(tree, own_abi, own_compiler)
    assert b"planted by a test" not in executable.read_bytes()


def test_files_of_an_editor_build_nothing(tree: Path, own_abi: Abi) -> None:
    for name in (".loop.c.swp", "loop.c~", "#loop.c#", ".#loop.c"):
        (tree / "probes/kernel" / name).write_text("half of a line")
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop"}


def test_times_alone_build_nothing(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    """As a fresh checkout beside a kept build leaves them; of what is asked for next only that is compiled."""
    (tree / "probes/other").mkdir()
    (tree / "probes/other/one.c").write_text(SECOND)
    later = time.time() + 1e6
    for path in (tree / "probes").rglob("*"):
        os.utime(path, (later, later))
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop"}
    made: list[int] = []
    build_abi(tree, own_abi, own_compiler, report=lambda: made.append(1))
    assert len(made) == 2, "its object and the executable"


def test_a_changed_flag_reaches_the_executable_and_its_description(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    folder = tree / "build" / own_abi.name
    before = (folder / "kernel.loop").read_bytes()
    build_abi(tree, msgspec.structs.replace(own_abi, flags=(*own_abi.flags, "-O0")), own_compiler)
    assert (folder / "kernel.loop").read_bytes() != before
    assert "-O0" in description((folder / "kernel.loop.describe").read_bytes())[1].flags.split()


def test_adding_a_probe_is_one_file_and_leaves_the_others_as_they_were(
    tree: Path, own_abi: Abi, own_compiler: str
) -> None:
    folder = tree / "build" / own_abi.name
    before = (folder / "kernel.loop").read_bytes()
    (tree / "probes/other").mkdir()
    (tree / "probes/other/nothing.c").write_text(SECOND)
    assert build_abi(tree, own_abi, own_compiler) == ["other.nothing"]
    assert description((folder / "other.nothing.describe").read_bytes())[0].question == "What does nothing cost?"
    assert (folder / "kernel.loop").read_bytes() == before
    (tree / "probes/other/nothing.c").unlink()
    build_abi(tree, own_abi, own_compiler)
    assert not list(folder.glob("other.nothing*"))
    assert list(json.loads((folder / "manifest.json").read_text())) == ["kernel.loop"]


def test_only_what_is_asked_for_is_built_and_what_was_built_before_stays(
    tree: Path, own_abi: Abi, own_compiler: str
) -> None:
    folder = tree / "build" / own_abi.name
    (tree / "probes/other").mkdir()
    for name in ("one", "two"):
        (tree / f"probes/other/{name}.c").write_text(SECOND)
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop"}
    build_abi(tree, own_abi, own_compiler, ["other.one"])
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop", "other.one"}
    assert not (folder / "other.two").exists()
    build_abi(tree, own_abi, own_compiler, ["other.two"])
    assert proven.up_to_date_probes(tree, own_abi) == {"other.one", "other.two", "kernel.loop"}
    assert set(json.loads((folder / "manifest.json").read_text())) == proven.up_to_date_probes(tree, own_abi)


def test_what_was_built_of_an_older_header_is_not_known_until_it_is_built_again(
    tree: Path, own_abi: Abi, own_compiler: str
) -> None:
    (tree / "probes/other").mkdir()
    (tree / "probes/other/one.c").write_text(SECOND)
    build_abi(tree, own_abi, own_compiler)
    _changed(tree / "probes/runtime/walk.h")
    assert build_abi(tree, own_abi, own_compiler, ["other.one"]) == ["other.one"]
    assert proven.up_to_date_probes(tree, own_abi) == {"other.one"}
    assert build_abi(tree, own_abi, own_compiler) == ["kernel.loop"]


@pytest.mark.parametrize("change", [{"flags": ("-m64", "-O1")}, {"summary": "another"}])
def test_another_abi_file_or_another_cpu_makes_all_stale(
    tree: Path, own_abi: Abi, change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop"}
    assert not proven.up_to_date_probes(tree, msgspec.structs.replace(own_abi, **change))
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    assert not proven.up_to_date_probes(tree, own_abi)


LIBRARIES = """
[here]
summary = "of every ABI"
package = "here"
sha256 = ""
[far]
summary = "of another ABI"
package = "far"
sha256 = ""
abis = ["far"]
"""


def test_a_library_makes_only_the_probes_stale_that_are_built_with_it(
    tree: Path, own_abi: Abi, own_compiler: str
) -> None:
    (tree / "probes/other").mkdir()
    (tree / "probes/libraries.toml").write_text(LIBRARIES)
    (tree / "build/libraries").mkdir()
    for name in ("here", "far"):
        named = SECOND.replace("    .question", f'    .library = "{name}",\n    .question')
        (tree / f"probes/other/{name}.c").write_text(named)
    build_abi(tree, own_abi, own_compiler)
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop", "other.here", "other.far"}
    for name in ("here", "far"):
        (tree / f"build/libraries/{name}.from").write_text("a folder")
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop", "other.far"}
    assert build_abi(tree, own_abi, own_compiler) == ["other.here"]
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop", "other.here", "other.far"}


def test_a_source_that_is_saved_during_a_build_is_built_the_next_time(
    tree: Path, own_abi: Abi, own_compiler: str
) -> None:
    source = tree / "probes/kernel/loop.c"
    _changed(source)
    build_abi(tree, own_abi, own_compiler, report=lambda: _changed(source))
    assert not proven.up_to_date_probes(tree, own_abi)
    build_abi(tree, own_abi, own_compiler)
    assert proven.up_to_date_probes(tree, own_abi) == {"kernel.loop"}


def test_an_object_from_the_future_is_made_again(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    """As a clock leaves it that went back."""
    later = time.time() + 1e6
    _replaced(tree, '.question = "', '.question = "Now: ')
    os.utime(tree / "build" / own_abi.name / "obj/kernel/loop/loop.c.o", (later, later))
    assert build_abi(tree, own_abi, own_compiler) == ["kernel.loop"]
    described = (tree / "build" / own_abi.name / "kernel.loop.describe").read_bytes()
    assert description(described)[0].question.startswith("Now: ")


def test_a_checkout_that_cannot_be_written_says_so(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    shutil.rmtree(tree / "build")
    (tree / "build").write_text("in the way")
    with pytest.raises(Failure, match="cannot be written to") as caught:
        build_abi(tree, own_abi, own_compiler)
    assert caught.value.exit_code == 5


def _add_object(tree: Path) -> None:
    """other.object, of C++ and assembly."""
    (tree / "probes/other").mkdir()
    (tree / "probes/other/object.cc").write_text(OBJECT)
    # One instruction by a name that most assemblers know.
    for machine in ("x86_64", "i386", "aarch64", platform.machine()):
        (tree / f"probes/other/object.{machine}.S").write_text(".globl helper\n.text\nhelper: nop\n")


def _changed(source: Path) -> None:
    with source.open("a") as file:
        file.write("\n")


def _replaced(tree: Path, old: str, new: str) -> None:
    source = tree / "probes/kernel/loop.c"
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new))


def test_a_probe_that_does_not_compile_is_a_failure(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    _replaced(tree, '#include "toll.h"', '#include "toll.h"\nstatic int unused;')
    with pytest.raises(Failure, match=own_abi.name) as caught:
        build_abi(tree, own_abi, own_compiler)
    assert caught.value.exit_code == 1


def test_a_probe_that_cannot_describe_itself_is_a_failure(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    crash = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }"
    _replaced(tree, '#include "toll.h"', f'#include "toll.h"\n{crash}')
    with pytest.raises(Failure, match=r"kernel\.loop"):
        build_abi(tree, own_abi, own_compiler)
    assert not (tree / "build" / own_abi.name / "kernel.loop.describe").exists()


@pytest.mark.parametrize(
    ("key", "value"), [("class", 16), ("machine", "EM_SPARC"), ("order", "middle"), ("flags", 0x4711)]
)
def test_an_executable_that_breaks_a_promise_is_refused(
    tree: Path, own_abi: Abi, own_compiler: str, key: str, value: int | str
) -> None:
    with pytest.raises(Failure, match=str(value)):
        accepting.prove_elf(
            tree / "build" / own_abi.name / "kernel.loop", msgspec.structs.replace(own_abi, elf={key: value})
        )
    if key == "class":
        with pytest.raises(Failure, match=str(value)):
            build_abi(tree, msgspec.structs.replace(own_abi, elf={key: value}), own_compiler)


@pytest.mark.parametrize(("link", "named"), [("", "not static"), ("-static-pie -fpie", "not static"), ("-c", "ET_REL")])
def test_an_executable_that_is_not_static_at_fixed_addresses_is_refused(
    tmp_path: Path, own_abi: Abi, own_compiler: str, link: str, named: str
) -> None:
    path = tmp_path / "made"
    words = [*own_compiler.split(), *own_abi.flags, *link.split(), "-x", "c", "-", "-o", path]
    subprocess.run(words, input=b"int main(void) { return 0; }", check=True)
    with pytest.raises(Failure, match=named):
        accepting.prove_elf(path, msgspec.structs.replace(own_abi, elf={}))


def test_code_for_a_later_arm_than_an_abi_promises_is_refused(tmp_path: Path, root: Path) -> None:
    """The ELF flags of both are the same: the build attributes tell them apart."""
    target_stands.need("arm-linux-gnueabi-gcc-12")
    words = ["arm-linux-gnueabi-gcc-12", "-static", "-x", "c", "-", "-o", tmp_path / "made"]
    promised = read_abi(root / "abis/arm-v5.toml")
    for march, refused in (("armv5te", False), ("armv7-a", True)):
        subprocess.run([*words, f"-march={march}"], input=b"int main(void) { return 0; }", check=True)
        with pytest.raises(Failure, match="cpu_arch 10") if refused else nullcontext():
            accepting.prove_elf(tmp_path / "made", promised)
    with pytest.raises(Failure, match="arm_isa 1"):
        accepting.prove_elf(tmp_path / "made", read_abi(root / "abis/arm-m3.toml"))


def test_a_file_that_is_no_executable_is_refused(tmp_path: Path, own_abi: Abi) -> None:
    path = tmp_path / "made"
    path.write_bytes(b"\x7fELF and then nonsense")
    with pytest.raises(Failure, match="made"):
        accepting.prove_elf(path, own_abi)


@pytest.mark.parametrize(("files", "at_once"), [(16, 1), (4, 1), (64, 4), (1024, 6), (resource.RLIM_INFINITY, 6)])
def test_as_many_probes_are_started_at_a_time_as_there_are_descriptors_for(
    monkeypatch: pytest.MonkeyPatch, files: int, at_once: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert build._at_once() == at_once
