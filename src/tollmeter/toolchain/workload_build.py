# SPDX-License-Identifier: Apache-2.0
"""A suite's [[workload]] for one ABI: built by its own command, and made into an executable that measures it as a
probe.

A command is started by its words, without a shell. `{cc}` and `{flags}` are replaced by the ABI's compiler and flags,
as several words; `{source}` and `{out}`, in any word, by the folder of the source and by the path of the built program.

    build/workloads/ABI/NAME/program     what the build left at {out}
    build/workloads/ABI/workload.NAME    the executable
    build/workloads/ABI/timer            the program that starts the commands of `toll time`
    build/workloads/ABI/toll-runner      what conducts the visits of a bundle (docs/bundle.md)
    build/workloads/ABI/bill-runner      what counts the crossings of a command (docs/bill.md)"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path

import msgspec

from tollmeter import commands
from tollmeter.model import Abi, Failure, Workload
from tollmeter.notices import once
from tollmeter.toolchain.accepting import prove_elf
from tollmeter.toolchain.build import compiler_of
from tollmeter.toolchain.libraries import Library, folder_of, install_library

OUT = "{out}"
_BUILD_S = 300
_STAMP = "made"
_OURS = "probes/runtime/workload"
_FLAGS = ("-std=gnu11", "-O2", "-D_GNU_SOURCE", "-static", "-no-pie", "-fno-pie", "-Iprobes/runtime")


def _source_of(root: Path, workload: Workload) -> Path | None:
    """Returns the folder of a workload's source, downloaded if missing; None if it has none. Raises Failure (5)."""
    source = workload.source
    if source is None:
        return None
    name = f"workload.{workload.name}"
    library = Library(
        summary=workload.what, package=source.beside, archive=source.archive, sha256=source.sha256, holds=source.holds,
        variable=f"{workload.name.upper()}_SOURCE",
    )  # fmt: skip
    install_library(root, name, library)
    return folder_of(root, name)


def made(root: Path, workload: Workload, abi: Abi) -> Path:
    """Returns the executable of a workload, built if its inputs changed. The compiler is searched only for a build,
    since trying one takes as long as several visits. Raises Failure: 1 if the workload does not build, 5 without its
    source or a compiler."""
    folder = root / "build/workloads" / abi.name / workload.name
    executable = folder.with_name(f"workload.{workload.name}")
    source = _source_of(root, workload)
    age, stamp = _age(root, workload, abi), folder / _STAMP
    if executable.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == age:
        return executable
    with once():
        compiler = compiler_of(abi)
        folder.mkdir(parents=True, exist_ok=True)
        executable.with_name(f"{executable.name}.describe").unlink(missing_ok=True)
        program = folder / "program"
        names = {"{source}": f"{source or folder}", OUT: f"{program}"}
        for command in workload.build:
            _run([*_words(command, names, compiler, abi)], folder, f"{workload.name} for {abi.name}")
        (folder / "words.h").write_text(_header(workload, program), encoding="utf-8")
        defines = {"TOLL_ABI": abi.name, "TOLL_PROBE": executable.name, "TOLL_FLAGS": " ".join(abi.flags)}
        words = [*compiler.split(), *_FLAGS, *abi.flags, f"-I{folder}"]
        words += [f'-D{name}="{value}"' for name, value in defines.items()]
        words += [f"{_OURS}/command.c", f"build/{abi.name}/libtoll.a", "-pthread", "-lm", "-o", f"{executable}"]
        _run(words, root, f"{executable.name} for {abi.name}")
        prove_elf(executable, abi)
        stamp.write_text(age, encoding="utf-8")
        return executable


def timer(root: Path, abi: Abi) -> Path:
    """Returns the executable that starts and times the commands of `toll time`. Raises Failure as `_program`."""
    return _program(root, abi, "timer", [root / _OURS / "timer.c", root / "probes/runtime/events.h"])


def bundle_runner(root: Path, abi: Abi) -> Path:
    """Returns the executable that conducts the visits of a bundle. Raises Failure as `_program`."""
    return _program(root, abi, "toll-runner", sorted((root / "probes/runtime/bundle").glob("*.[ch]")))


def bill_runner(root: Path, abi: Abi) -> Path:
    """Returns the executable that counts the crossings of a command, for `toll bill`. Raises Failure as `_program`."""
    sources = [*sorted((root / "probes/runtime/crossings").glob("*.[ch]")), root / "probes/runtime/bpf.h"]
    return _program(root, abi, "bill-runner", sources, _call_names)


_SYSTEM_CALL = re.compile(r"^#define __NR_([a-z0-9_]+) ", re.MULTILINE)
_NUMBERED = re.compile(r"^CALL ([a-z0-9_]+) = ([0-9a-fx+() ]+)$", re.MULTILINE)
_X32_BIT, _OF_X32 = 0x40000000, 512
"""Bit in the numbers of x32's system calls, and the first number of calls that x86-64 does not have."""


def _call_names(compiler: str, abi: Abi, folder: Path) -> None:
    """Writes call_names.h: the names of system calls by number, as the kernel's headers define them. It includes the
    calls of x32 and of the 32-bit ABI that an x86-64 kernel also serves."""
    words = [*compiler.split(), *abi.flags]
    x32_names = _names_in([*words, f"-D__X32_SYSCALL_BIT={_X32_BIT:#x}"], "asm/unistd_x32.h")
    x32_only = {number: name for number, name in x32_names.items() if number >= _X32_BIT + _OF_X32}
    tables = {"names": _names_in(words, "asm/unistd.h") | x32_only, "names_32": _names_in(words, "asm/unistd_32.h")}
    text = ""
    for name, calls in tables.items():
        entries = (f'[{number % _X32_BIT}] = "{call}",\n' for number, call in calls.items())
        text += f"static const char *const {name}[CALLS_OF_ABI] = {{\n[0] = 0,\n{''.join(entries)}}};\n"
    (folder / "call_names.h").write_text(text, encoding="utf-8")


def _names_in(compiler: Sequence[str], header: str) -> dict[int, str]:
    """Returns the names of the system calls that a header defines, by number; none if the header does not exist. The
    header may define a number as a sum, or by another macro."""

    def preprocessed(source: str, option: str) -> str:
        words = [*compiler, "-E", option, "-x", "c", "-"]
        done = commands.run("checkout", words, input=source, capture_output=True, text=True, timeout=_BUILD_S)
        return str(done.stdout)

    source = f"#if __has_include(<{header}>)\n#include <{header}>\n#endif\n"
    names = _SYSTEM_CALL.findall(preprocessed(source, "-dM"))
    queries = "".join(f"CALL {name} = __NR_{name}\n" for name in names)
    numbered = _NUMBERED.findall(preprocessed(source + queries, "-P"))
    return {sum(int(part.strip("() "), 0) for part in number.split("+")): name for name, number in numbered}


def _program(
    root: Path,
    abi: Abi,
    name: str,
    sources: Sequence[Path],
    prepare: Callable[[str, Abi, Path], None] = lambda _compiler, _abi, _folder: None,
) -> Path:
    """Returns build/workloads/ABI/DIGEST/NAME, built if it does not exist, in a temporary folder until complete.
    DIGEST: of the sources and flags. prepare: writes headers into that folder. Raises Failure: 1 if the build fails, 5
    without a compiler."""
    digest = _digest([" ".join(abi.flags).encode(), *(path.read_bytes() for path in sources)])
    executable = root / "build/workloads" / abi.name / digest / name
    if executable.is_file():
        return executable
    compiler = compiler_of(abi)
    for older in executable.parent.parent.glob(f"*/{name}"):
        older.unlink()
    executable.parent.mkdir(parents=True, exist_ok=True)
    compiled = [f"{path}" for path in sources if path.suffix == ".c"]
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=executable.parent) as scratch:
        made = Path(scratch, name)
        prepare(compiler, abi, Path(scratch))
        command = [*compiler.split(), *_FLAGS, *abi.flags, f"-I{scratch}", *compiled, "-lm", "-o", f"{made}"]
        _run(command, root, f"{name} for {abi.name}")
        prove_elf(made, abi)
        made.replace(executable)
    return executable


def _age(root: Path, workload: Workload, abi: Abi) -> str:
    """Returns a digest of all inputs of a workload's build. It depends on the compiler, since libtoll.a does."""
    library = root / "build" / abi.name / "libtoll.a"
    parts = [msgspec.json.encode(workload), " ".join(abi.flags).encode()]
    return _digest([*parts, library.read_bytes(), (root / _OURS / "command.c").read_bytes()])


def _digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _words(command: Sequence[str], names: dict[str, str], compiler: str, abi: Abi) -> Iterator[str]:
    for word in command:
        if word == "{cc}":
            yield from compiler.split()
        elif word == "{flags}":
            yield from abi.flags
        else:
            yield reduce(lambda text, name: text.replace(name, names[name]), names, word)


def _header(workload: Workload, program: Path) -> str:
    """Returns a C header with the workload's question, command, expected output and memory, and the program itself if
    the workload built it; the program's name is then in place of its build path."""
    carried = workload.start[0] == OUT
    words = [workload.name if carried else workload.start[0], *workload.start[1:]]
    image = f'.incbin \\"{program}\\"\\n' if carried else ""
    return (
        f"static const char workload_question[] = {_quoted(workload.what)};\n"
        f"static char *const workload_words[] = {{{', '.join(map(_quoted, words))}, NULL}};\n"
        f"static const char workload_expected[] = {_quoted(workload.verify)};\n"
        f"static const uint64_t workload_memory_bytes = {workload.memory_bytes}u;\n"
        "extern const unsigned char workload_image[], workload_image_end[];\n"
        f'__asm__(".section .rodata\\nworkload_image:\\n{image}workload_image_end:\\n.byte 0\\n.text\\n");\n'
    )


def _quoted(text: str) -> str:
    """Returns a C string. JSON's escapes are valid in C, except for code points, which these texts do not contain."""
    return json.dumps(text, ensure_ascii=False)


def _run(words: Sequence[str], folder: Path, what: str) -> None:
    try:
        done = commands.run("file", words, cwd=folder, capture_output=True, text=True, timeout=_BUILD_S)
    except (OSError, commands.TimeoutExpired) as error:
        raise Failure(f"{what} cannot be built: {error}", 1) from error
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        reasons = [line for line in lines if "error" in line] or lines or ["it says nothing"]
        raise Failure(f"{what} does not build: {reasons[0].strip()}", 1)
