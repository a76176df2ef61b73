# SPDX-License-Identifier: Apache-2.0
"""What has to be built for what is asked, found in the sources alone; and what is said where it cannot be."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from support import runtime_objects
from tollmeter import catalog
from tollmeter.library import places
from tollmeter.library.places import sources
from tollmeter.library.wanted import ProbeRequest, asking, selects_of, wanted
from tollmeter.model import Abi, CacheModel, Failure, Select, Suite, Workload
from tollmeter.toolchain import ready
from tollmeter.toolchain.ready import known_gap, make_ready

SOURCES = {"kernel.loop": (), "kernel.enter": (), "kernel.remote": ("libtirpc",), "memory.latency": ()}
OWN = ("x86_64", "ia32", "x86_64-musl")
DEFAULT = Suite(
    name="default", question="?",
    select=(Select(probe="kernel.*", libraries=False), Select(probe="memory.latency", abi=("ia32", "mipsel"))),
)  # fmt: skip


def probes_of(*words: str, abis: tuple[str, ...] = (), against: tuple[str, ...] = ()) -> dict[str, set[str]]:
    return wanted(asking(words, {"default": DEFAULT}, SOURCES, against), SOURCES, abis, OWN)


def test_a_probe_is_built_for_the_native_abi_alone() -> None:
    assert probes_of("kernel.enter", "size=64") == {"x86_64": {"kernel.enter"}}
    assert probes_of("kernel.*") == {"x86_64": {"kernel.loop", "kernel.enter", "kernel.remote"}}


def test_a_suite_is_built_for_the_abis_that_it_names_and_this_machine_has() -> None:
    assert probes_of() == {"x86_64": {"kernel.loop", "kernel.enter"}, "ia32": {"memory.latency"}}


def test_a_probe_of_a_suite_file_that_does_not_exist_is_named_before_anything_is_built(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('question = "?"\n[[select]]\nprobe = "kernel.entr"\n')
    with pytest.raises(
        Failure, match=r"there is no probe 'kernel.entr' in .*own.toml; did you mean kernel.enter"
    ) as told:
        probes_of(f"{tmp_path / 'own.toml'}")
    assert told.value.exit_code == 2
    with pytest.raises(Failure, match=r"did you mean 'kernel\.\*'\?"):
        probes_of("kernel")


def test_abis_that_are_named_stand_above_those_of_the_suite() -> None:
    """The native one tells what machine this is, by a probe that is built anyhow."""
    assert probes_of("kernel.enter", abis=("mipsel",)) == {"mipsel": {"kernel.enter"}, "x86_64": {"kernel.enter"}}
    assert probes_of("kernel.loop", abis=("native", "ia32")) == {abi: {"kernel.loop"} for abi in ("x86_64", "ia32")}


def test_what_stands_against_a_point_is_built_too() -> None:
    assert probes_of("kernel.loop", against=("ia32", "size=1")) == {abi: {"kernel.loop"} for abi in ("x86_64", "ia32")}
    assert probes_of("kernel.loop", against=("kernel.enter",)) == {"x86_64": {"kernel.loop", "kernel.enter"}}


def test_a_suites_profiled_probes_are_built_and_its_workload_has_a_probe_of_its_abi() -> None:
    cache = CacheModel(bytes=1, line=1, ways=1, assumed="", select=(Select(probe="kernel.loop"),))
    looked = Suite(name="s", question="?", profile=(Select(probe="memory.*"),), modelled=cache)
    assert wanted(ProbeRequest(selects_of(looked)), SOURCES, (), OWN) == {"x86_64": {"memory.latency", "kernel.loop"}}
    lua = Workload(name="lua", what="", start=("lua",), verify="1", abi=("native", "ia32"))
    told = wanted(ProbeRequest(selects_of(Suite(name="s", question="?", workload=(lua,)))), SOURCES, (), OWN)
    assert told == {"x86_64": {"kernel.enter"}, "ia32": {"kernel.enter"}}


def test_a_name_that_nothing_has_is_refused_before_anything_is_built() -> None:
    with pytest.raises(Failure, match=r"kernel\.enter") as caught:
        probes_of("kernel.entr")
    assert caught.value.exit_code == 2


def test_libraries_are_named_by_sources_as_by_what_is_built_of_them(root: Path) -> None:
    built = catalog.load_catalog(root / "build", platform.machine()).probes()
    assert {name: " ".join(named) for name, named in sources().items()} == {
        name: probe.library or "" for name, probe in built.items()
    }
    assert any(sources().values())


# ---- ABIs that cannot be built --------------------------------------------------------------------------------------


@pytest.fixture
def lacking(tree: Path, own_abi: Abi, checkout: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a second ABI of this CPU, for which there is no compiler."""
    text = (tree / f"abis/{own_abi.name}.toml").read_text()
    (tree / "abis/zz.toml").write_text(text.replace("compiler = [", 'compiler = ["no-such-cc"] #'))
    checkout(tree)
    monkeypatch.setattr(ready, "_DPKG", tree / "status")
    monkeypatch.chdir(tree)
    return tree


def loaded(said: list[str], *abis: str, of: tuple[str, ...] = ("native", "zz")) -> tuple[catalog.Catalog, list[str]]:
    """Returns the catalog, and the sentences that were said meanwhile."""
    said.clear()
    return places.made_ready(abis, [], ProbeRequest([Select(probe="kernel.loop", abi=of)])), [*said]


def test_an_abi_that_was_not_named_is_a_gap_reported_once_and_retried_after_installs(
    lacking: Path, own_abi: Abi, said: list[str]
) -> None:
    first, (sentence,) = loaded(said)
    assert first.abis == (own_abi.name,) and "no-such-cc" in first.gaps["zz"] and "no-such-cc" in sentence
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ready, "find_compiler", lambda _: pytest.fail("it was tried again"))
        assert loaded(said) == (first, [])
    (lacking / "status").touch()
    later = (lacking / "build/zz.gap").stat().st_mtime + 1
    os.utime(lacking / "status", (later, later))
    assert known_gap(lacking, "zz") is None
    (lacking / "abis/zz.toml").write_text((lacking / f"abis/{own_abi.name}.toml").read_text())
    runtime_objects.lend(lacking, "zz", of=own_abi.name)
    third, _ = loaded(said)
    assert third.abis == (own_abi.name, "zz") and not third.gaps
    assert not (lacking / "build/zz.gap").exists()


def test_native_is_the_first_abi_that_can_be_built(lacking: Path, own_abi: Abi, said: list[str]) -> None:
    path = lacking / f"abis/{own_abi.name}.toml"
    good, bad = path.read_text(), (lacking / "abis/zz.toml").read_text()
    path.write_text(bad)
    (lacking / "abis/zz.toml").write_text(good)
    runtime_objects.lend(lacking, "zz", of=own_abi.name)
    found, _ = loaded(said, of=("native",))
    assert found.abis == ("zz",) and found.first_abi("kernel.loop") == "zz"
    assert own_abi.name in found.gaps


def test_an_abi_without_a_compiler_that_is_named_is_tried_each_time(
    lacking: Path, own_abi: Abi, said: list[str]
) -> None:
    loaded(said)
    for _ in range(2):
        assert len(loaded(said, own_abi.name, "zz")[1]) == 1
    with pytest.raises(Failure, match="no-such-cc") as caught:
        loaded(said, "zz")
    assert caught.value.exit_code == 5
    path = lacking / f"abis/{own_abi.name}.toml"
    path.write_text((lacking / "abis/zz.toml").read_text())
    with pytest.raises(Failure, match="no ABI can be built here") as caught:
        loaded(said)
    assert caught.value.exit_code == 6


def test_an_abi_that_the_kernel_does_not_run_is_described_elsewhere_only_where_it_was_named(
    tree: Path, own_abi: Abi, own_compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tollmeter.toolchain.accepting._describe", lambda _: None)
    far = msgspec.structs.replace(own_abi, name="far", compiler=(own_compiler,), runs=("native",))
    (tree / "abis/far.toml").write_text(
        "".join(
            f"{key} = {msgspec.json.encode(getattr(far, key)).decode()}\n" for key in ("summary", "compiler", "flags")
        )
    )
    runtime_objects.lend(tree, "far", of=own_abi.name)
    assert not make_ready(tree, {"far": ["kernel.loop"]}, (), ["far"])
    assert "this kernel does not run it" in make_ready(tree, {"far": ["kernel.loop"]})["far"].sentence
