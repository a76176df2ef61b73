# SPDX-License-Identifier: Apache-2.0
"""What an ABI file claims of its floating point is read from the code: a claim that the code does not keep is refused.

Each is built with flags or sources that break it: the ELF header says nothing of what a body computes with."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from support import runtime_objects, target_stands
from tollmeter.catalog import left_out_of_builds
from tollmeter.model import Abi, Failure
from tollmeter.toolchain import abis, accepting, build, proven
from tollmeter.toolchain.disassemble import instructions

ROOT = Path(__file__).parents[2]
PROBE = "float.dot"
COMPUTES = r"float\.dot: \S*multiply\S* has '{} "


@pytest.fixture(scope="module")
def whole(_built_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkout with one floating-point probe in it, that nobody breaks: an ABI is built in it once."""
    return with_a_probe(Path(shutil.copytree(_built_tree, tmp_path_factory.mktemp("floats") / "toll meter")))


@pytest.fixture
def sources(tree: Path) -> Path:
    """The same for one test alone, which may break it."""
    return with_a_probe(tree)


def with_a_probe(tree: Path) -> Path:
    (tree / "probes/float").mkdir()
    for name in ("dot.cc", "dot.arm.S", "vectors.h", "ways.h"):
        shutil.copy2(ROOT / "probes/float" / name, tree / "probes/float")
    return tree


def abi_of(name: str, **claims: str) -> Abi:
    """Without what its file promises of the ELF header."""
    abi = abis.read_abi(ROOT / f"abis/{name}.toml")
    target_stands.need(str(abi.compiler[0]))
    return msgspec.structs.replace(abi, elf={"machine": abi.elf["machine"]}, **claims)


def proved(tree: Path, abi: Abi) -> None:
    accepting.prove_floats(made(tree, abi, PROBE), abi)


def made(tree: Path, abi: Abi, probe: str) -> Path:
    """Builds a probe by its content and not by times of files, which a new checkout of the same sources changes."""
    runtime_objects.lend(tree, abi.name)
    sources, name = proven.begin(tree, abi, [probe]), f"build/{abi.name}/{probe}"
    build.run_make(tree, abi, str(abi.compiler[0]), [*proven.options_of(sources), name])
    proven.finish(tree, abi, sources, [probe], {})
    runtime_objects.keep(tree, abi.name)
    return tree / name


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    "name", ["x86_64", "arm-v5", "arm-soft", "arm-softfp", "arm-hard", "arm-fpa", "riscv64", "sparc64"]
)
def test_our_own_claims_are_kept(whole: Path, name: str) -> None:
    """The other ABIs are held to theirs whenever they are built."""
    assert abi_of(name).floats
    proved(whole, abi_of(name))


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("arm-hard", r"v(mul|add|mla)\.f32"), ("arm-softfp", r"v(mul|add|mla)\.f32"), ("x86_64", "(mul|add)[sp][sd]"),
     ("aarch64", "f(madd|mul|add)"), ("s390x", r"\w+")],
)  # fmt: skip
def test_soft_that_computes_by_an_fpu_is_refused_with_function_and_instruction(
    whole: Path, name: str, instruction: str
) -> None:
    with pytest.raises(Failure, match=COMPUTES.format(instruction)) as caught:
        proved(whole, abi_of(name, floats="soft"))
    assert caught.value.exit_code == 1


def test_hard_that_calls_a_library_is_refused(whole: Path) -> None:
    with pytest.raises(Failure, match=r"multiply\S* has no instruction of floating-point arithmetic"):
        proved(whole, abi_of("arm-soft", floats="hard"))


@pytest.mark.parametrize("name", ["x86_64", "arm-hard"])
def test_a_body_by_the_library_that_computes_itself_is_refused(sources: Path, name: str) -> None:
    replaced(sources / "probes/float/ways.h", "return {library::mul(a.value, b.value)};", "return {a.value * b.value};")
    with pytest.raises(Failure, match=r"multiplyI8emulated\S* has 'v?mul"):
        proved(sources, abi_of(name))


def test_a_kernel_of_the_accelerator_is_its_instructions_alone(sources: Path) -> None:
    assembly = sources / "probes/float/dot.arm.S"
    replaced(assembly, "\tsubs r2, r2, #1\n", "\tsubs r2, r2, #1\n\t.inst 0xee300b00 /* vadd.f64 */\n")
    with pytest.raises(Failure, match=r"fpa_dot_\w+ has '.* not FPA's"):
        proved(sources, abi_of("arm-fpa"))


def test_what_has_no_kernel_of_the_accelerator_does_not_claim_it(whole: Path) -> None:
    with pytest.raises(Failure, match="no kernel of FPA"):
        proved(whole, abi_of("arm-soft", floats="fpa"))


def test_a_probe_without_a_body_to_be_read_is_refused(sources: Path) -> None:
    replaced(sources / "probes/float/dot.cc", "multiply", "MULTIPLY2")
    with pytest.raises(Failure, match="no body"):
        proved(sources, abi_of("x86_64"))


def test_a_build_leaves_out_what_is_not_what_its_abi_file_claims(
    sources: Path, own_abi: Abi, own_compiler: str
) -> None:
    build.build_abi(sources, msgspec.structs.replace(own_abi, floats="soft"), own_compiler)
    assert re.search(COMPUTES.format(r"\S+"), left_out_of_builds(sources / "build")[PROBE])
    assert not (sources / f"build/{own_abi.name}/{PROBE}.describe").exists()


def test_a_probe_that_goes_no_three_ways_needs_no_accelerator(sources: Path) -> None:
    shutil.copy2(ROOT / "probes/float/call.cc", sources / "probes/float")
    abi = abi_of("arm-fpa")
    accepting.prove_floats(made(sources, abi, "float.call"), abi)


def test_the_library_is_the_same_code_under_every_float_abi_of_arm(whole: Path) -> None:
    """Debian's for the hard ABI is Thumb-2 code, 1.13 times as short: a ratio that is no ABI's."""
    if not list(Path("/usr/lib/gcc-cross/arm-linux-gnueabi").glob("*/libgcc.a")):
        pytest.skip("no libgcc of the soft ABI here")
    paths = [made(whole, abi_of(name), PROBE) for name in ("arm-softfp", "arm-hard")]
    for routine in ("__aeabi_dadd", "__aeabi_dmul", "__aeabi_fadd", "__aeabi_fmul"):
        softfp, hard = ([one.code for one in instructions(path, routine)] for path in paths)
        assert softfp == hard and len(hard) > 20
        assert {len(code) for code in hard} == {4}
