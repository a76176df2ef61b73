# SPDX-License-Identifier: Apache-2.0
"""Makes a bundle: probes, plan and runner in one file, for machines without Python. Makes a run folder from the journal
that a bundle wrote, or from a journal captured from a serial line (docs/bundle.md).

A returned journal is untrusted data: none of it is executed, and no file of an archive is extracted."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import platform
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter import protocol
from tollmeter.catalog import Catalog, check_unchanged
from tollmeter.files import own_folder, tar_of, xz_of
from tollmeter.library import places
from tollmeter.library.command_words import parsed, suite_of_words
from tollmeter.library.options import DEFAULT_BUDGET, names, seconds, share, usual_precision
from tollmeter.library.prepare import description_records, with_history
from tollmeter.library.wanted import asking
from tollmeter.model import Abi, Failure, Suite
from tollmeter.plan import measured_caches
from tollmeter.plan.points import on_machine
from tollmeter.plan.portable import plan_text, used_probes
from tollmeter.protocol import clean, clean_suite, lines_of
from tollmeter.store.capture import Capture, Kept, captured
from tollmeter.store.journal import Journal
from tollmeter.store.request import FORMAT, Request
from tollmeter.toolchain.abis import for_cpu, known_abis
from tollmeter.toolchain.accepting import loaded_part
from tollmeter.toolchain.workload_build import bundle_runner
from tollmeter.version import VERSION

_SCRIPT = "probes/runtime/bundle/run.sh"
FAST = 0
"""Compression preset of xz for a bundle that is used once."""
_COMMON = "common"
_RUNNER = "toll-runner"
_EVERY = "*"


class BundleRequest(NamedTuple):
    """The requested content of a bundle, as it was typed. preset: compression preset of xz."""

    words: tuple[str, ...]
    abis: str | None = None
    budget: str | None = None
    precision: str | None = None
    preset: int = 9 | lzma.PRESET_EXTREME


def bundled(request: BundleRequest, out: Path) -> tuple[bytes, dict[str, int]]:
    """Returns the content of the bundle's file, an archive or else a script that unpacks itself; and the number of
    probes of each ABI.

    Raises Failure: 2 for an unknown name or a suite that needs the host, 5 if an ABI cannot be built."""
    known = known_abis(places.ROOT)
    abis = names(request.abis) or (for_cpu(known.values(), platform.machine())[0].name,)
    suites = places.suites()
    catalog = places.made_ready(abis, [], asking(request.words, suites, places.sources()))
    suite = _portable(suite_of_words(request.words, suites, catalog))
    budget_s = seconds(request.budget or suite.budget or DEFAULT_BUDGET)
    files = {
        "plan": plan_text(suite, catalog, abis, budget_s, _precision(request)).encode(),
        **_records(request, suite, catalog, abis), "NOTICE": _notice(),
    }  # fmt: skip
    executables = {abi: _executables(known[abi], suite, catalog) for abi in abis}
    for abi, several in executables.items():
        if not several:
            raise Failure(f"{abi}: {catalog.gaps.get(abi, 'none of the probes is built for it')}", 5)
    folders = {abi: (several, _machines(known[abi])) for abi, several in executables.items()}
    probes = {abi: len(several) - 1 for abi, several in executables.items()}
    return _content(out, files, folders, request.preset), probes


def _notice() -> bytes:
    """Returns the licences of Tollmeter and of the libraries that are linked into its executables."""
    texts = [places.ROOT / "LICENSE", places.ROOT / "THIRD-PARTY.md", *sorted((places.ROOT / "licenses").iterdir())]
    return b"\n".join(path.read_bytes() for path in texts)


def planned_s(request: BundleRequest) -> float:
    """Returns the budget in seconds, without building. Raises Failure (2)."""
    named = parsed(request.words)[1]
    suite = places.suites().get(named[0].name) if len(named) == 1 else None
    return seconds(request.budget or (suite and suite.budget) or DEFAULT_BUDGET)


def _portable(suite: Suite) -> Suite:
    """Returns the suite without points that need the host's programs. Raises Failure (2) if no other points remain."""
    if suite.workload:
        raise Failure(f"{suite.name} measures commands of this machine, which no bundle can hold: choose another suite")
    return msgspec.structs.replace(suite, profile=(), modelled=None, worth="")


def _machines(abi: Abi) -> tuple[str, ...]:
    """Returns the CPUs that run an ABI, as `uname -m` names them; an ABI for any CPU is built for this machine's."""
    return tuple(platform.machine() if name == "*" else name for name in abi.runs_on)


def _precision(request: BundleRequest) -> float:
    return share(request.precision) if request.precision else usual_precision(())


def _records(request: BundleRequest, suite: Suite, catalog: Catalog, abis: Sequence[str]) -> dict[str, bytes]:
    """Returns the records that the runner writes into the journal's first stream: `request`, and `head` with probes and
    builds."""
    probes = catalog.probes()
    record = {
        "k": "request", "format": FORMAT, "suite": msgspec.to_builtins(suite), "tollmeter": VERSION,
        "words": request.words, "precision": _precision(request), "priority": "real-time",
    }  # fmt: skip
    used = sorted(used_probes(suite, catalog))
    executables = [catalog.executables.get((name, abi)) for abi in abis for name in used]
    head = description_records([probes[name] for name in used], [made.build for made in executables if made])
    return {"request": _lines([record]), "head": _lines(head)}


def _lines(records: Sequence[dict[str, object]]) -> bytes:
    lines = [msgspec.json.encode(record) for record in records]
    if max(map(len, lines)) > protocol.LONGEST_LINE - 1024:
        raise Failure("the suite is too large for one record: bundle fewer suites")
    return b"".join(line + b"\n" for line in lines)


def _executables(abi: Abi, suite: Suite, catalog: Catalog) -> dict[str, bytes]:
    """Returns the probes and the runner of one ABI, by name: the loaded segments of each file, unchanged."""
    made = [catalog.executables[key] for key in sorted(catalog.executables) if key[1] == abi.name]
    used = used_probes(suite, catalog)
    several = [executable for executable in made if executable.probe.probe in used]
    check_unchanged(several)
    if not several:
        return {}
    files = {executable.probe.probe: loaded_part(Path(executable.path).read_bytes()) for executable in several}
    return {_RUNNER: loaded_part(bundle_runner(places.ROOT, abi).read_bytes()), **files}


# ---- the file -------------------------------------------------------------------------------------------------------

_Folders = dict[str, tuple[dict[str, bytes], tuple[str, ...]]]


def is_archive(out: Path) -> bool:
    """Returns whether the bundle of this name is an archive."""
    return out.name.endswith((".tar.xz", ".tar.gz"))


def _content(out: Path, files: dict[str, bytes], folders: _Folders, preset: int) -> bytes:
    script = (places.ROOT / _SCRIPT).read_text(encoding="utf-8")
    inside = {f"{abi}/{name}": content for abi, (several, _) in folders.items() for name, content in several.items()}
    if is_archive(out):
        top = out.name.rpartition(".tar")[0]
        unpacked = {"run.sh": script.replace("@SECTIONS@", "").encode(), **files, **inside}
        packed = tar_of({f"{top}/{name}": content for name, content in unpacked.items()})
        return xz_of(packed, preset) if out.name.endswith(".xz") else gzip.compress(packed, 9, mtime=0)
    sections = {_COMMON: xz_of(tar_of(files), preset)}
    for abi, (several, _) in folders.items():
        packed = tar_of({f"{abi}/{name}": content for name, content in several.items()})
        sections[abi] = xz_of(packed, preset)
    machines = {_COMMON: _EVERY} | {abi: ",".join(names) for abi, (_, names) in folders.items()}
    return _script(script, sections, machines) + b"".join(sections.values())


def _script(template: str, sections: Mapping[str, bytes], machines: Mapping[str, str]) -> bytes:
    """Returns the script with the table of its sections. sections: packed files of an ABI, or of all. machines:
    machines of each section, as `uname -m` names them."""
    lines, offset = [], 0
    for name, packed in sections.items():
        lines.append(f"{name} {offset} {len(packed)} {hashlib.sha256(packed).hexdigest()} {machines[name]}")
        offset += len(packed)
    filled = template.replace("@SECTIONS@", "\n".join(lines)).replace("@UNPACK@", "xz")
    # The script contains its own length, whose digits are padded with blanks to the length of their mark.
    mark = "@HEADER@"
    length = len(filled.encode())
    return filled.replace(mark, f"{length}".ljust(len(mark))).encode()


# ---- what comes back ------------------------------------------------------------------------------------------------


def imported(path: Path, out: Path | None) -> tuple[Path, Capture]:
    """Imports a journal or capture as a run. Returns the run's folder, and what was captured. Raises Failure: 2 if the
    file does not exist or the folder is taken, 5 if it contains no run of a bundle."""
    with Kept() as kept:
        capture = captured(path, kept.add)
        request = request_of(path, capture)
        folder = out.resolve() if out else places.new_folder(request.suite.name)
        write_run(capture, kept, request, folder)
    places.set_last_run(folder)
    return folder, capture


def write_run(capture: Capture, visits: Iterable[bytes], request: Request, folder: Path) -> None:
    """Writes a run's folder completely or not at all: a full disk or a killed process leaves no incomplete run. Raises
    Failure: 2 if the path exists, 5 if it cannot be written."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise Failure(f"{folder} is there already: name a different folder with --out")
    try:
        half = Path(tempfile.mkdtemp(prefix=".importing-", dir=own_folder(folder.parent)))
        try:
            named_request = msgspec.structs.replace(request, id=folder.name)
            with Journal.create(half / folder.name, named_request, capture.first) as journal:
                for stream in visits:
                    journal.append(stream)
                journal.note(capture.session)
            (half / folder.name).rename(folder)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    except (Failure, OSError) as error:
        why = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(why, OSError):
            raise
        raise Failure(f"cannot write {folder}: {why.strerror}. Nothing was imported", 5) from why


def request_of(path: Path, capture: Capture) -> Request:
    """Returns the request in a captured journal. Raises Failure: 2 if the journal has none, 5 if it cannot be read."""
    machine = capture.head.machine
    assert machine is not None
    line = next((line for line in lines_of(capture.first) if line.kind == "request"), None)
    if line is None:
        raise Failure(
            f"{path} does not say what was requested, as a bundle's journal does: of another run, copy the whole folder"
        )
    try:
        record = msgspec.json.decode(line.text)
        suite = clean_suite(record.pop("suite"))
        fields = {key: value for key, value in clean(record).items() if key not in ("k", "n", "c")}
        started = fields.pop("started", "") or datetime.now(UTC).isoformat(timespec="seconds")
        request = msgspec.convert({**fields, "started": started, "suite": suite, "id": ""}, Request)
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
        raise Failure(f"{path}: its request cannot be read: {clean(str(error))[:200]}", 5) from error
    machine_with_caches = measured_caches(machine, request.cpus)
    request = msgspec.structs.replace(request, suite=on_machine(request.suite, machine_with_caches))
    return with_history(request, machine, {probe.probe for probe in capture.head.probes})
