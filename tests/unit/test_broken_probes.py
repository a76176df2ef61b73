# SPDX-License-Identifier: Apache-2.0
"""A probe that does not build, or does not say of itself what it must, is left out with its reason; all others stay."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from support import target_stands
from tollmeter import catalog
from tollmeter.cli.developing import new_probe
from tollmeter.library.command_words import suite_of_words
from tollmeter.model import Abi, Failure
from tollmeter.toolchain import accepting, build
from tollmeter.toolchain.build import build_abi

WHOLE = """#include "toll.h"
static void nothing(struct toll_run *r) { TOLL_USE(r); }
static enum toll_status check(struct toll_run *r) { return r ? TOLL_OK : TOLL_FAILED; }
static const struct toll_metric metrics[] = {{.name = "time", .unit = "ns", .summary = "nothing"}, {0}};
static const struct toll_parameter parameters[] = {{0}};
const struct toll_probe toll_probe = {
    .parameters = parameters,
    .question = "What does nothing cost?",
    .metrics = metrics,
    .body = nothing,
    .check = check,
    .revision = 1,
};
"""


def choices(*names: str) -> str:
    listed = "".join(f'"{name}", ' for name in names)
    return f".kind = TOLL_CHOICE, .choices = (const char *const[]){{{listed}NULL}}"


def with_parameters(*several: str) -> str:
    each = "".join(f'{{.summary = "one", {fields}}}, ' for fields in several)
    return f"parameters[] = {{{each}{{0}}}}"


NO_PARAMETERS = "parameters[] = {{0}}"
CRASH = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }\n"
BROKEN = {
    "no_compile": ("static void nothing", "static viod nothing", "viod"),
    "no_link": ("TOLL_USE(r);", "extern void nowhere(void); nowhere(); TOLL_USE(r);", "nowhere"),
    "no_header": ('#include "toll.h"', '#include "toll.h"\n#include <no/such.h>', "no/such.h"),
    "no_check": (".check = check,", ".finish = nothing, .prepare = check,", "no check"),
    "no_unit": ('.unit = "ns"', '.unit = "fortnight"', "time has the unit 'fortnight'; units are ns cycle"),
    "no_meaning": ('.unit = "ns"', '.unit = "ns", .means = "nothing-known"', "nothing-known"),
    "no_typical": (
        NO_PARAMETERS, with_parameters(f'.name = "whence", {choices("set", "end")}, .typical = "start"'),
        "the typical value 'start' of whence is none of set, end",
    ),
    "no_listed_size": (
        NO_PARAMETERS,
        with_parameters('.name = "bytes", .values = (const uint64_t[]){1, 8, TOLL_END}, .typical = "4"'),
        "the typical value '4' of bytes is none of 1, 8",
    ),
    "one_parameter_twice": (
        NO_PARAMETERS, with_parameters('.name = "a", .to = 1', '.name = "a", .to = 1'),
        "two parameters are named a",
    ),
    "one_choice_twice": (
        NO_PARAMETERS, with_parameters(f'.name = "a", {choices("x", "x")}'), "two choices of a are named x"
    ),
    "no_control": (
        "{0}", '{.name = "extra", .unit = "ns", .summary = "more", .source = TOLL_DIFFERENCE}, {0}',
        "extra is a difference, and the probe has no control",
    ),
    "one_metric_twice": (
        "{0}", '{.name = "time", .unit = "op/s", .summary = "rate", .better = TOLL_MORE}, {0}',
        "two metrics are named time",
    ),
    "no_parameter_of_a_toll": (
        '.unit = "ns"', '.unit = "ns", .toll = "a seek of {bytes}"',
        "the toll 'a seek of {bytes}' of time names {bytes}, which is no parameter",
    ),
    "no_parameter_of_a_meaning": (
        '.unit = "ns"', '.unit = "ns", .means = "latency-of-size"',
        "time has the meaning 'latency-of-size', which needs the parameter size",
    ),
    "no_words": ("static void nothing", f"{CRASH}static void nothing", "status -"),
}  # fmt: skip
"""A probe by each way of being none: what is written in place of what, and what its reason names."""


def write(tree: Path, name: str, source: str) -> None:
    (tree / "probes/other").mkdir(exist_ok=True)
    (tree / f"probes/other/{name}.c").write_text(source)


def test_broken_probes_are_left_out_with_their_reasons_and_stop_no_other(
    tree: Path, own_abi: Abi, own_compiler: str
) -> None:
    (tree / "docs").mkdir(exist_ok=True)
    shutil.copy2(target_stands.ROOT / "docs/add-a-probe.md", tree / "docs")
    write(tree, "no_compile", WHOLE)
    build_abi(tree, own_abi, own_compiler)
    for name, (old, new, _) in BROKEN.items():
        assert old in WHOLE
        write(tree, name, WHOLE.replace(old, new, 1))
    assert not build_abi(tree, own_abi, own_compiler)
    loaded = catalog.load_catalog(tree / "build", platform.machine())
    assert sorted(loaded.broken) == sorted((f"other.{name}", own_abi.name) for name in BROKEN)
    reasons = {name: loaded.broken[f"other.{name}", own_abi.name] for name in BROKEN}
    assert {name: reasons[name] for name, (_, _, named) in BROKEN.items() if named not in reasons[name]} == {}
    assert not list((tree / "build" / own_abi.name).glob("other.*"))
    assert list(loaded.probes()) == ["kernel.loop"]
    with pytest.raises(Failure, match="left out") as caught:
        suite_of_words(["other.no_check"], {}, loaded)
    assert caught.value.exit_code == 1
    for name in BROKEN:
        write(tree, name, WHOLE)
    assert len(build_abi(tree, own_abi, own_compiler)) == len(BROKEN)
    assert not catalog.left_out_of_builds(tree / "build")


def test_what_make_says_is_each_probe_s_own() -> None:
    said = (
        "probes/a/one.c:3:1: error: unknown type name 'viod'\n"
        "make: *** [probes/probes.mk:76: build/x86_64-musl/obj/a/one.c.o] Error 1\n"
        "ld: probes/a/two.c:9: undefined reference to `nowhere'\n"
        "make: *** [probes/probes.mk:80: build/x86_64-musl/a.two] Error 1\n"
        "make: Target 'all' not remade because of errors.\n"
    )
    found = build.broken_probes("x86_64-musl", said)
    assert list(found) == ["a.one", "a.two"]
    assert "viod" in found["a.one"] and "nowhere" in found["a.two"] and "viod" not in found["a.two"]


def test_a_runtime_that_does_not_compile_is_no_single_probe_s(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    source = tree / "probes/runtime/emit.c"
    source.write_text(source.read_text() + "\nviod nothing;\n")
    with pytest.raises(Failure, match="does not build"):
        build_abi(tree, own_abi, own_compiler)


def test_the_table_of_meanings_is_read() -> None:
    known = accepting.meanings(target_stands.ROOT)
    assert {"core-clock", "copy-bandwidth-of-size", "entry"} <= known
    assert not {"control", "sleeps", "TOLL_PAGES_SMALL", "TOLL_PAGES-small"} & known
    assert not accepting.meanings(target_stands.ROOT / "no such tree")


def test_a_new_probe_compiles_and_measures(tree: Path, own_abi: Abi, own_compiler: str) -> None:
    shutil.copy2(target_stands.ROOT / "probes/skeleton.c", tree / "probes")
    path = new_probe(tree, "kernel.getrandom")
    assert path == tree / "probes/kernel/getrandom.c"
    assert build_abi(tree, own_abi, own_compiler) == ["kernel.getrandom"]
    executable = tree / "build" / own_abi.name / "kernel.getrandom"
    told = subprocess.run([executable, "--samples=2", "--sample-ns=10000"], capture_output=True, text=True, check=True)
    assert told.stdout.count('"k":"sample"') == 2 and '"k":"fail"' not in told.stdout
    with pytest.raises(Failure, match="already"):
        new_probe(tree, "kernel.getrandom")


@pytest.mark.parametrize("name", ["getrandom", "kernel.", "runtime.main", "../x.y", "Kernel.x", "kernel.x.c", "a b.c"])
def test_what_is_no_probe_s_name_is_refused_as_usage(name: str, tree: Path) -> None:
    with pytest.raises(Failure) as caught:
        new_probe(tree, name)
    assert caught.value.exit_code == 2
