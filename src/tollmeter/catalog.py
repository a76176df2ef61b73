# SPDX-License-Identifier: Apache-2.0
"""Finds probes and suites in files: build/ABI/ and suites/*.toml."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tollmeter.files import mistake, read_regular
from tollmeter.model import Build, Failure, Probe, Published, Record, Suite, first_few
from tollmeter.protocol import Damaged, clean, clean_suite, description
from tollmeter.root import typed

_MOST_BYTES = 1 << 20
_MOST_SHOWN = 6
"""Highest number of names from a suite's file in a message."""
_VALUED = ("about", "change", "at least", "at most")
_COMMANDS = ("build", "start", "verify")
"""Keys of a workload whose values are commands."""


class Executable(Record, frozen=True):
    """The executable of one probe for one ABI, as it described itself. path: absolute. target: the target that runs it;
    also: other requested targets that run it; could: targets that run it if a selection names them."""

    path: str
    probe: Probe
    build: Build
    target: str = "local"
    also: tuple[str, ...] = ()
    could: tuple[str, ...] = ()


class Catalog(Record, frozen=True):
    """The built probes. abis: ABIs that can run, the machine's own first. gaps: why other ABIs cannot, by name. broken:
    why a probe was not built, by name and ABI."""

    executables: dict[tuple[str, str], Executable] = {}
    abis: tuple[str, ...] = ()
    gaps: dict[str, str] = {}
    broken: dict[tuple[str, str], str] = {}

    def probes(self) -> dict[str, Probe]:
        """Returns the probes by name, as described for the first ABI that has them."""
        by_name: dict[str, Probe] = {}
        for abi in self.abis:
            for (probe, of_abi), executable in self.executables.items():
                if of_abi == abi:
                    by_name.setdefault(probe, executable.probe)
        return dict(sorted(by_name.items()))

    def first_abi(self, probe: str) -> str | None:
        """Returns the first ABI for which a probe is built, the machine's own before others; None without one."""
        return next((abi for abi in self.abis if (probe, abi) in self.executables), None)


def load_catalog(build: Path, machine: str, abis: Collection[str] | None = None) -> Catalog:
    """Returns the built probes of all or some ABIs. machine: the CPU as in `uname -m`. Raises Failure (5) if none is
    built."""
    executables: dict[tuple[str, str], Executable] = {}
    broken: dict[tuple[str, str], str] = {}
    gaps: dict[str, str] = {}
    for manifest in sorted(build.glob("*/manifest.json")):
        abi = manifest.parent.name
        if abis is not None and abi not in abis:
            continue
        described = _executables(manifest)
        if not described:
            gaps[abi] = f"{abi} is built, but this kernel does not run it"
        executables.update({(executable.probe.probe, abi): executable for executable in described})
        broken |= {(probe, abi): why for probe, why in _left_out(manifest).items()}
    if not executables:
        raise Failure(f"no probe that runs here is built in {build}: `{typed('--set-up')}` builds them", exit_code=5)
    runnable = sorted({abi for _, abi in executables}, key=lambda abi: (abi != machine, abi))
    return Catalog(executables=executables, abis=tuple(runnable), gaps=gaps, broken=broken)


def _executables(manifest: Path) -> list[Executable]:
    """Returns the executables of one ABI whose description the build could read, which shows that they run. Their
    target is the one on which they were described, `local` for this machine."""
    folder = manifest.parent
    chosen = folder.with_name(f"{folder.name}.target")
    is_local = not chosen.is_file()
    target = "local" if is_local else str(clean(chosen.read_text(encoding="utf-8", errors="replace").strip()))
    executables = []
    path = manifest
    try:
        for name, facts in msgspec.json.decode(manifest.read_bytes(), type=dict[str, dict[str, str | int]]).items():
            path = folder / f"{name}.describe"
            if path.is_file():
                probe, described = description(path.read_bytes())
                known = {key: facts[key] for key in ("sha256", "size_bytes")}
                build = msgspec.convert({**msgspec.to_builtins(described), **known}, Build)
                executables.append(Executable(path=str(folder / name), probe=probe, build=build, target=target))
    except (OSError, ValueError, RecursionError, Damaged) as error:
        raise Failure(f"{path} cannot be read: `make probes` writes it again ({error})", exit_code=5) from error
    return executables


def check_unchanged(executables: Iterable[Executable]) -> None:
    """Checks that each file is the one that was built. Raises Failure (5), since a number must belong to its recorded
    hash."""
    for executable in executables:
        try:
            digest = hashlib.sha256(Path(executable.path).read_bytes()).hexdigest()
        except OSError as error:
            raise Failure(f"{executable.path} cannot be read: {error.strerror}", exit_code=5) from error
        if digest != executable.build.sha256:
            raise Failure(f"{executable.path} is not the file that was built: run `make probes`", exit_code=5)


# ---- the index ----------------------------------------------------------------------------------------------------

INDEX = "probes/index.jsonl"
"""File with the description of every probe, one in each line, which can be read before a build. `make index` writes
it."""


def indexed(root: Path) -> dict[str, Probe]:
    """Returns the descriptions of the probes by name, as the last `make index` wrote them, without a build."""
    path = root / INDEX
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
        probes = [msgspec.json.decode(line, type=Probe) for line in lines]
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: `make index` writes it again ({error})", exit_code=5) from error
    return {probe.probe: probe for probe in probes}


def built_description(build: Path, name: str) -> Probe | None:
    """Returns the description of a probe that an earlier build stored beside an executable; None if none did."""
    for path in sorted(build.glob(f"*/{name}.describe")):
        with contextlib.suppress(OSError, Damaged, Failure):
            return description(path.read_bytes())[0]
    return None


def abis_of_built(build: Path) -> dict[str, list[str]]:
    """Returns the ABIs for which earlier builds made each probe, by its name."""
    abis: dict[str, list[str]] = {}
    for manifest in sorted(build.glob("*/manifest.json")):
        for name in _read(manifest).keys() - _left_out(manifest).keys():
            abis.setdefault(name, []).append(manifest.parent.name)
    return abis


def left_out_of_builds(build: Path) -> dict[str, str]:
    """Returns why earlier builds left probes out, by their names."""
    left_out = (_left_out(manifest) for manifest in sorted(build.glob("*/manifest.json")))
    return {name: f"left out: {why}" for several in left_out for name, why in several.items()}


def _left_out(manifest: Path) -> dict[str, str]:
    return {probe: entry["why"] for probe, entry in _read(manifest).items() if "why" in entry}


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        return dict(clean(msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])))
    except (OSError, ValueError, RecursionError):
        return {}


def index_of(loaded: Catalog) -> bytes:
    """Returns the content of probes/index.jsonl, from built probes."""
    return b"".join(msgspec.json.encode(probe) + b"\n" for probe in loaded.probes().values())


# ---- suites -----------------------------------------------------------------------------------------------------


def read_suite(path: Path) -> Suite:
    """Returns one suite file (docs/suites.md). Raises Failure with a sentence for invalid content."""
    try:
        table = clean_suite(_one_line(tomllib.loads(read_regular(path, _MOST_BYTES).decode())))
        suite = msgspec.convert({"name": path.stem, **table}, Suite)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is not a valid suite: {mistake(error, Suite)}") from error
    if not suite.select and not suite.workload:
        raise Failure(f"{path} measures nothing: a suite has a [[select]] or a [[workload]]")
    for claim in suite.published:
        if reason := _unfit(claim):
            raise Failure(f"{path}: '{claim.what}' {reason}")
    return suite


def _unfit(claim: Published) -> str:
    """Returns the missing part of a claim; empty if none is missing."""
    if not (claim.is_answerable or claim.missing):
        return "must have a row, or a sentence that says why there is none"
    if claim.relation in _VALUED and claim.value is None:
        return f"must have a value, since its relation is '{claim.relation}'"
    if claim.relation == "ordering" and len(claim.order) < 2:
        return "must have two rows or more in 'order'"
    return "must have a 'bend'" if claim.relation == "crossing" and not claim.bend else ""


def _one_line(value: Any) -> Any:
    """Returns a value with each text, which may be broken over lines in the file, as one line. The words of a command
    are unchanged."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: item if key in _COMMANDS else _one_line(item) for key, item in value.items()}
    return [_one_line(item) for item in value] if isinstance(value, list) else value


class Suites(Mapping[str, Suite]):
    """The suites of a folder by name. A file is read when its suite is looked up: all of them take 0.1 s, and most
    commands name one."""

    def __init__(self, folder: Path) -> None:
        self._paths = {path.stem: path for path in sorted(folder.glob("*.toml"))}
        self._read: dict[str, Suite] = {}

    def __getitem__(self, name: str) -> Suite:
        if name not in self._read:
            self._read[name] = read_suite(self._paths[name])
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


# ---- names ------------------------------------------------------------------------------------------------------


def check_known(kind: str, name: str, known: Collection[str], place: str = "") -> None:
    """Raises Failure (2) for an unknown name, with the nearest names."""
    if name not in known:
        raise unknown(kind, name, [*known], place=place)


def unknown(kind: str, name: str, known: Sequence[str], advice: str = "", place: str = "") -> Failure:
    """Returns a failure of one line for an unknown name, with the nearest known names. If none is near, it gives advice
    or the first names. place: the searched set, as in `of kernel.loop`."""
    lower = {candidate.lower(): candidate for candidate in reversed(known)}
    close = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.5)
    # `arm` means one of arm-soft and arm-hard, and all of them are as near.
    close = [candidate for candidate in lower if candidate.startswith(f"{name.lower()}-")][::-1] or close
    is_family = "probe" in kind and "." not in name
    families = {candidate.partition(".")[0] for candidate in known if is_family and "." in candidate}
    family = difflib.get_close_matches(name, families, n=1, cutoff=0.75)  # one letter of four may differ
    near = [f"'{family[0]}.*'"] if family else [lower[candidate] for candidate in close]
    either = " or ".join(", ".join(near).rsplit(", ", 1))
    listed = advice or (f"known: {first_few(known, _MOST_SHOWN)}" if known else "there is none")
    others = f"did you mean {either}?" if near else listed
    looked = f" {place}" if place else ""
    return Failure(f"there is no {kind} {clean(name)!r}{looked}; {others}")
