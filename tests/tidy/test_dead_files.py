# SPDX-License-Identifier: Apache-2.0
"""Nothing lies about unused: every source is compiled, included, imported, started or read by something."""

from __future__ import annotations

import platform
import re

from tidy.house import ROOT, files, hold, text, under
from tidy.test_imports import PACKAGE
from tollmeter.toolchain.abis import for_cpu, read_abis
from tollmeter.toolchain.build import probe_names
from tollmeter.toolchain.elf_machines import ELF_MACHINES

# Started by name and imported by nothing.
ENTRIES = {"__main__.py", "__init__.py", "set_up.py", "probe_index.py"}
ARCHITECTURE = re.compile(r"\.([a-z0-9_]+)\.S$")


def test_every_probe_describes_itself_for_every_abi_that_was_built() -> None:
    probes = probe_names(ROOT / "probes")
    unasked = [abi.name for abi in for_cpu(read_abis(ROOT / "abis").values(), platform.machine())]
    built = [abi for abi in unasked if not (ROOT / f"build/{abi}.gap").exists()]
    assert built
    hold(
        f"build/{abi}/{probe}.describe is not there: `make probes` tells why"
        for abi in built
        for probe in probes
        if not (ROOT / f"build/{abi}/{probe}.describe").is_file()
    )


def test_every_header_is_included() -> None:
    """Those of a port of musl are included by musl, which is not here."""
    included = {
        name for source in under("", ".c", ".cc", ".h", ".S") for name in re.findall(r'#include "(.*)"', text(source))
    }
    included |= {name for recipe in under("", ".mk") for name in re.findall(r"-include \S*/(\w+\.h)", text(recipe))}
    hold(
        f"{header} is included by nothing; delete it"
        for header in under("", ".h")
        if header.rpartition("/")[2] not in included and "/musl_sparc/arch/" not in header
    )


def test_every_piece_of_assembly_belongs_to_a_file_beside_it_and_an_architecture_of_ours() -> None:
    pieces = [name for name in under("probes/", ".S") if "/bare/" not in name]
    architectures = {machine.sources for machine in ELF_MACHINES.values()}
    hold(
        f"{piece}: no file {ARCHITECTURE.sub('', piece)}.c or .cc beside it"
        for piece in pieces
        if not _has_owner(piece)
    )
    hold(
        f"{piece}: no ABI has the architecture in its name, see src/tollmeter/toolchain/elf_machines.py"
        for piece in pieces
        if not (found := ARCHITECTURE.search(piece)) or found[1] not in architectures
    )


def _has_owner(piece: str) -> bool:
    return piece.startswith("probes/runtime/") or any(
        ARCHITECTURE.sub("", piece) + ending in files() for ending in (".c", ".cc")
    )


IMPORT = re.compile(r"^ *(?:from (\.?)([\w.]*) )?import (\([^)]*\)|.*)", re.MULTILINE)


def imported(source: str, package: str) -> set[str]:
    """Dotted names that a file of a package imports, each with and without the last part. To parse every file for it
    would take five seconds."""
    found: set[str] = set()
    for level, module, names in IMPORT.findall(source):
        named = [part.split()[0] for part in re.sub(r"#.*|[()]", "", names).split(",") if part.strip()]
        base = ".".join(filter(None, [package if level else "", module]))
        found |= {f"{base}.{name}" for name in named} | {base} if base else {*named}
    return found


def test_imports_are_found_in_each_form() -> None:
    source = "import a.b, c\n  from .d import (  # said\n    e as f,\n    g,\n  )\nfrom h import i\n"
    assert imported(source, "p") == {"a.b", "c", "p.d", "p.d.e", "p.d.g", "h", "h.i"}


def is_found(name: str) -> bool:
    """Whether a module's package takes every file it finds, as the findings do: a new rule is a new file."""
    folder, _, file = name.rpartition("/")
    return "iter_modules" in text(f"{folder}/__init__.py") and not file.startswith("_")


def test_every_module_is_imported() -> None:
    dotted = {name: name.removeprefix("src/").removesuffix(".py").replace("/", ".") for name in under(PACKAGE, ".py")}
    # A verb's module is imported by its name, when the verb is typed.
    used = {f"tollmeter.cli.{home}" for home in re.findall(r'"(\w+):\w+"', text("src/tollmeter/cli/verbs.py"))}
    for name in under("", ".py"):
        used |= imported(text(name), dotted.get(name, "").rpartition(".")[0])
    hold(
        f"{name} is imported by nothing; delete it"
        for name, module in dotted.items()
        if name.rpartition("/")[2] not in ENTRIES and module not in used and not is_found(name)
    )


def test_every_file_beside_the_code_is_named_by_it() -> None:
    code = "\n".join(text(name) for name in under("", ".py", ".mk", ".j2", ".html", ".css"))
    beside = [name for name in under(PACKAGE, "") if not name.endswith(".py")]
    hold(f"{name} is named by no code; delete it" for name in beside if name.rpartition("/")[2] not in code)
