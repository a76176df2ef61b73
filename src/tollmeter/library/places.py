# SPDX-License-Identifier: Apache-2.0
"""Locations: the checkout, its builds, the suites, the runs."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Literal

import msgspec

from tollmeter import catalog, root
from tollmeter.catalog import Catalog
from tollmeter.exit_codes import NOTHING_RAN
from tollmeter.files import plain_name
from tollmeter.library.wanted import Libraries, ProbeRequest
from tollmeter.library.wanted import wanted as wanted_by
from tollmeter.model import Abi, Failure, Probe, Select, Suite
from tollmeter.notices import notify
from tollmeter.store.index import index_has_numbers
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.store.journal import Journal, has_ended
from tollmeter.store.request import Request, read_request
from tollmeter.targets import Lack
from tollmeter.targets.local import is_run_here
from tollmeter.targets.target import Absent, Target
from tollmeter.targets.ways import LOCAL, NATIVE, clock_of, lack, targets_for
from tollmeter.toolchain import libraries, prebuilt
from tollmeter.toolchain.abis import for_cpu, known_abis, open_here, refused_abis
from tollmeter.toolchain.build import find_compiler, probe_names
from tollmeter.toolchain.packages import install_compilers, install_for
from tollmeter.toolchain.ready import (
    NoCompiler,
    ProbesByAbi,
    in_one_sentence,
    known_gap,
    lacking,
    make_ready,
    not_ready,
)

ROOT = root.ROOT
SUITES = ROOT / "suites"
LAST = "LAST"
_LAST = re.compile(rf"{LAST}(?::([^~]+))?(?:~(\d{{1,6}}))?")
Need = Literal["any", "suite", "ended"]
_PROBE = re.compile(r"[a-z]+\.[a-z0-9_]+")


def runs_folder() -> Path:
    """Returns the checkout's own runs folder; the user's if the checkout cannot be written, or does not exist."""
    shared = ROOT / "runs"
    if root.IS_CHECKOUT and root.may_write(shared):
        return shared
    return root.user_folder("XDG_DATA_HOME", ".local/share") / "runs"


RUNS = runs_folder()


def sources() -> dict[str, tuple[str, ...]]:
    """Returns every probe that can be requested, with the libraries that it is built with."""
    return libraries.named_by(ROOT / "probes", sorted(probe_names(ROOT / "probes")))


def described_probes(names: Sequence[str]) -> dict[str, Probe | None]:
    """Returns the description of each probe whose name matches one of the names or globs: from the index, else from an
    earlier build, else None. Raises Failure (2) for a name without a match."""
    known, index = sorted(probe_names(ROOT / "probes")), catalog.indexed(ROOT)
    for name in names:
        if not any(fnmatchcase(probe, name) for probe in known):
            raise catalog.unknown("probe", name, known)
    matching = [probe for probe in known if any(fnmatchcase(probe, name) for name in names)]
    return {probe: index.get(probe) or catalog.built_description(ROOT / "build", probe) for probe in matching}


def built(*, brings: bool = False) -> Catalog:
    """Returns all probes that this machine runs itself. brings: downloads the libraries of single probes."""
    every = Select(probe="*", abi=tuple(abi.name for abi in _own_abis()))
    return made_ready([], [], ProbeRequest([every], brings=brings))


def made_ready(
    abis: Sequence[str],
    targets: Sequence[str],
    request: ProbeRequest,
    may_install: bool = True,
    *,
    may_start: bool = True,
) -> Catalog:
    """Builds the requested probes that are not up to date, and returns a catalog of all requested probes. abis: ABIs
    that the user named; without any, those of the selections. targets: targets that the user named; none for this
    machine. may_install: installs missing packages and libraries. may_start: if false, nothing is built, and a probe
    that is not built is a gap.

    Raises Failure for an unknown target or ABI, or if none of the ABIs can be made ready."""
    for target in targets:
        clock_of(target)
    named = [abi for abi in abis if abi != NATIVE]
    _check_known(named)
    known, own_abis = sources(), [*_own_abis(targets), *_selected_abis(request, targets)]
    if targets and not own_abis and not named:
        raise Failure(f"no ABI of this machine runs on {', '.join(targets)}: --abi names one that does")
    failures: dict[str, Failure] = {}
    earlier_gaps: dict[str, Failure] = {}
    while True:
        wanted = wanted_by(request, known, abis, [abi.name for abi in own_abis])
        if may_start:
            prebuilt.take(ROOT, wanted)
        if may_install:
            _install_missing(wanted, named, own_abis, targets, known if request.brings else {})
        unnamed = [abi.name for abi in own_abis if abi.name in wanted and abi.name not in named]
        earlier_gaps |= {name: gap for name in unnamed if name != own_abis[0].name and (gap := known_gap(ROOT, name))}
        tried = {name: probes for name, probes in wanted.items() if name not in earlier_gaps}
        failures |= earlier_gaps | (make_ready(ROOT, tried, targets, unnamed) if may_start else not_ready(ROOT, tried))
        if not own_abis[1:] or not isinstance(failures.get(own_abis[0].name), NoCompiler):
            break
        own_abis = own_abis[1:]  # Native is the first ABI that can be built.
    _check_any(wanted, named, failures)
    _report([failures[abi] for abi in sorted(failures.keys() - earlier_gaps.keys())])
    ready = wanted.keys() - failures.keys()
    loaded = catalog.load_catalog(ROOT / "build", platform.machine(), ready)
    loaded = _without(loaded, lambda abi, target: target != LOCAL and abi not in named)
    gaps = {abi: failure.sentence for abi, failure in failures.items()}
    loaded = msgspec.structs.replace(loaded, gaps={**loaded.gaps, **gaps})
    return _placed(loaded, targets, named) if targets else _also_in_guests(_with_others(loaded, named), named)


def _own_abis(targets: Sequence[str] = ()) -> list[Abi]:
    """Returns the ABIs of this CPU that one of the named targets could run; all without a named target."""
    return [abi for abi in for_cpu(known_abis(ROOT).values(), platform.machine()) if _has_target(abi, targets)]


def _selected_abis(request: ProbeRequest, targets: Sequence[str]) -> list[Abi]:
    """Returns the optional ABIs that a selection or a counterpart names, and that this CPU and kernel run."""
    selected = {*request.against, *(name for select in request.selects for name in select.abi)}
    possible = (abi for abi in known_abis(ROOT).values() if abi.asked_only and abi.name in selected)
    return [abi for abi in possible if is_run_here(abi) and _has_target(abi, targets)]


def _has_target(abi: Abi, targets: Sequence[str]) -> bool:
    try:
        return not targets or bool(targets_for(targets, abi, runs_here=True))
    except Failure:
        return False


def _install_missing(
    wanted: ProbesByAbi, named: Sequence[str], own: Sequence[Abi], targets: Sequence[str], known: Libraries
) -> None:
    """Installs missing Debian packages, and missing libraries that probes are built with."""
    stale = [abi for abi in own if abi.name in wanted and lacking(ROOT, abi, wanted[abi.name])]
    install_compilers(ROOT, [abi for abi in stale if abi is own[0] or known_gap(ROOT, abi.name) is None])
    asked = {name: probes for name, probes in wanted.items() if name in named or targets}
    install_for(ROOT, asked, targets, platform.machine())
    _install_libraries(wanted, known)


def _check_any(wanted: ProbesByAbi, named: Sequence[str], failures: Mapping[str, Failure]) -> None:
    """Raises Failure if none of the named ABIs is ready, or no ABI at all."""
    failures_of_named = [failures[abi] for abi in named if abi in failures]
    are_all_named = bool(named) and len(failures_of_named) == len(named)
    causes = failures_of_named if are_all_named else list(failures.values())
    if not are_all_named and not wanted.keys() <= failures.keys():
        return
    lacks = {cause.abi: cause.missing for cause in causes if isinstance(cause, NoCompiler)}
    if len(lacks) < len(causes):
        raise next(cause for cause in causes if not isinstance(cause, NoCompiler))
    if are_all_named:
        raise Failure(in_one_sentence(lacks), 5)
    raise Failure(f"no ABI can be built here: {in_one_sentence(lacks)}", NOTHING_RAN)


def _report(failures: Sequence[Failure]) -> None:
    """Reports the ABIs that lack a compiler in one sentence, with a line that installs the packages of all of them."""
    for failure in failures:
        if not isinstance(failure, NoCompiler):
            notify(failure.sentence)
    if lacks := {failure.abi: failure.missing for failure in failures if isinstance(failure, NoCompiler)}:
        notify(in_one_sentence(lacks))


def _install_libraries(wanted: ProbesByAbi, known: Libraries) -> None:
    """Installs the missing libraries of the wanted probes, unless every wanted ABI lacks a compiler. A library that is
    not available is reported here, and in the rows of its probes. known: names of libraries by probe."""
    names = {library_name for probes in wanted.values() for probe in probes for library_name in known.get(probe, ())}
    missing = libraries.missing_libraries(ROOT, sorted(names), wanted)
    abis = [abi for name, abi in known_abis(ROOT, wanted).items() if name in wanted] if missing else []
    for name in missing if any(not isinstance(find_compiler(abi), Lack) for abi in abis) else ():
        library = libraries.known_libraries(ROOT)[name]
        notify(f"bringing {library.summary}, once")
        try:
            libraries.install_library(ROOT, name, library)
        except Failure as failure:
            notify(failure.sentence)


def check_selected_abis(selects: Iterable[Select]) -> None:
    """Raises Failure (2) if a selection for this CPU names an unknown ABI."""
    here = (select for select in selects if not select.cpu or platform.machine() in select.cpu)
    _check_known(abi for select in here for abi in select.abi if abi != NATIVE)


def _check_known(abis: Iterable[str]) -> None:
    """Checks the names of ABIs before anything is installed or built. Raises Failure (2) with the nearest names."""
    abis = list(abis)
    known = [*known_abis(ROOT, abis), *refused_abis(ROOT, abis)]
    for abi in abis:
        if abi not in known:
            raise catalog.unknown("ABI", abi, known)


def _with_others(loaded: Catalog, named: Sequence[str]) -> Catalog:
    """Returns the catalog, in which each executable lists the targets that its ABI's file names and this machine has.
    Only one guest is listed: one that runs all named ABIs, since ABIs are compared by rows of one target; else the
    ABI's first guest."""
    known = known_abis(ROOT, named)
    ways = {
        abi: tuple(way for way in known[abi].runs if way != NATIVE and lack(way) is None)
        for abi in loaded.abis
        if abi in known
    }
    common = set.intersection(*(set(ways.get(abi, ())) for abi in named)) if named else set()
    targets_of_abi = {}
    for abi, targets in ways.items():
        guests = [way for way in targets if way.startswith("guest:")]
        chosen = next((guest for guest in guests if guest in common), guests[0] if guests else None)
        targets_of_abi[abi] = tuple(way for way in targets if way not in guests or way == chosen)
    executables = {
        key: msgspec.structs.replace(executable, could=targets_of_abi.get(key[1], ()))
        for key, executable in loaded.executables.items()
    }
    return msgspec.structs.replace(loaded, executables=executables)


def _also_in_guests(loaded: Catalog, named: Sequence[str]) -> Catalog:
    """Returns the catalog, in which all named ABIs also run in the guest that one named ABI requires, if they can: ABIs
    are compared by rows of one target."""
    executables = {key: executable for key, executable in loaded.executables.items() if key[1] in named}
    guests = {executable.target for executable in executables.values() if executable.target.startswith("guest:")}
    joined = {
        key: msgspec.structs.replace(
            executable, also=tuple(sorted(guests.intersection(executable.could) - {executable.target}))
        )
        for key, executable in executables.items()
    }
    return msgspec.structs.replace(loaded, executables={**loaded.executables, **joined})


def report_left_out(loaded: Catalog, suite: Suite) -> None:
    """Reports the probes of a suite that were left out of the build, or that match a pattern and do not take its
    parameters, each with its reason. If no probe takes them, the plan reports it in one line."""
    from tollmeter.plan.points import accepts, several_of  # numpy, which lists do without

    named = dict.fromkeys(select.probe for select in suite.select)
    for (probe, abi), sentence in sorted(loaded.broken.items()):
        if any(fnmatchcase(probe, form) for form in named):
            notify(f"left out {probe} for {abi}: {sentence}")
    for select in (select for select in suite.select if select.narrows):
        words = " ".join(f"{name}={','.join(map(str, several_of(own)))}" for name, own in select.parameters.items())
        fits = {
            name: accepts(described, select.parameters) for name, described in loaded.probes().items()
            if fnmatchcase(name, select.probe)
        }  # fmt: skip
        for name in (name for name, takes in fits.items() if not takes and any(fits.values())):
            notify(f"left out {name}: it does not take {words}")


def with_gaps(loaded: Catalog, suite: Suite) -> Catalog:
    """Returns the catalog with a gap for each ABI of this CPU that a suite names and that was not requested; its row
    states the gap."""
    named = {abi for select in suite.select for abi in select.abi} - {*loaded.abis, *loaded.gaps}
    own = {name for name, abi in known_abis(ROOT).items() if platform.machine() in abi.runs_on}
    gaps = {abi: f"{abi} is made ready only where it is asked for: --abi {abi}" for abi in sorted(named & own)}
    return msgspec.structs.replace(loaded, gaps={**loaded.gaps, **gaps})


def _without(loaded: Catalog, drop: Callable[[str, str], bool]) -> Catalog:
    """Returns the catalog without some executables. drop: decides by an ABI's name and target."""
    kept = {key: executable for key, executable in loaded.executables.items() if not drop(key[1], executable.target)}
    remaining = {abi for _, abi in kept}
    return msgspec.structs.replace(loaded, executables=kept, abis=tuple(abi for abi in loaded.abis if abi in remaining))


def _placed(loaded: Catalog, targets: Sequence[str], named: Sequence[str]) -> Catalog:
    """Returns the catalog, in which each executable runs on those named targets that run its ABI; a named ABI without a
    target is a gap. Raises Failure if no target runs any ABI."""
    known = known_abis(ROOT, named)
    here = {abi for (_, abi), executable in loaded.executables.items() if executable.target == LOCAL}
    targets_of_abi: dict[str, tuple[str, ...]] = {}
    failures: dict[str, Failure] = {}
    for abi in loaded.abis:
        try:
            targets_of_abi[abi] = targets_for(targets, known[abi], abi in here)
        except Failure as failure:
            failures[abi] = Failure(f"{abi}: {failure.sentence}", failure.exit_code)
    if not targets_of_abi:
        raise next(iter(failures.values()))
    gaps = {abi: failure.sentence for abi, failure in failures.items() if abi in named}
    loaded = msgspec.structs.replace(loaded, gaps={**loaded.gaps, **gaps})
    loaded = _without(loaded, lambda abi, _: abi not in targets_of_abi)
    executables = {
        key: msgspec.structs.replace(executable, target=targets_of_abi[key[1]][0], also=targets_of_abi[key[1]][1:])
        for key, executable in loaded.executables.items()
    }
    return msgspec.structs.replace(loaded, executables=executables)


def opened(names: Iterable[str]) -> dict[str, Target]:
    """Returns opened targets by name. A target that cannot be opened reports this in each of its visits."""
    targets: dict[str, Target] = {}
    for name in names:
        try:
            targets[name] = open_here(ROOT, name)
        except Failure as failure:
            targets[name] = Absent(name, failure)
    return targets


def suites() -> Mapping[str, Suite]:
    return catalog.Suites(SUITES)


def new_folder(suite: str) -> Path:
    """Returns the path runs/DATE-SUITE, or the first of runs/DATE-SUITE-2, -3 and so on that does not exist; does not
    create the folder. Raises Failure (5) if no run can be stored."""
    if not root.may_write(RUNS):
        raise Failure(f"runs cannot be kept in {RUNS}: name another folder with --out or XDG_DATA_HOME", 5)
    name = f"{date.today().isoformat()}-{plain_name(suite)}"  # noqa: DTZ011  the person's own day
    if root.IS_CHECKOUT and RUNS != ROOT / "runs":
        # The folder that must be writable for runs to be stored in the checkout.
        nearest = ROOT / "runs" if (ROOT / "runs").is_dir() else ROOT
        if os.statvfs(nearest).f_flag & os.ST_RDONLY:
            why = "is on a file system that is mounted read-only"
        else:
            why = "is not writable" if nearest.stat().st_uid == os.geteuid() else "belongs to another user"
        notify(f"{shown(nearest)} {why}: runs are kept in {RUNS}")
    numbered = (RUNS / (name if number == 1 else f"{name}-{number}") for number in range(1, 100_000))
    return next(folder for folder in numbered if not os.path.lexists(folder))


def new_journal(out: Path | None, request: Request, first: bytes) -> Journal:
    """Returns the journal of a new run, in `out` or in a folder of its name. If another command has since begun a run
    of this name, as nodes that share a checkout may, the run gets the next free name. Raises Failure."""
    if out is not None:
        return Journal.create(out, request, first)
    while True:
        folder = RUNS / request.id
        try:
            return Journal.create(folder, request, first)
        except Failure:
            if not os.path.lexists(folder / JOURNAL):
                raise
            request = msgspec.structs.replace(request, id=new_folder(request.suite.name).name)


def find_run(name: str, need: Need = "any", probes: Sequence[str] = ()) -> Path:
    """Returns a run's folder from a path, a name under runs/, LAST, LAST~2 (two before), or LAST:default~2 among the
    runs of one suite. need: the runs that LAST counts: any run, runs of a suite, or completed runs of a suite with a
    number. probes: names or globs; LAST counts runs that contain one, if there are any. Raises Failure (2) with the
    nearest names."""
    if not name:
        raise Failure(f"a run's name is missing: `{root.typed('list', 'runs')}` lists all runs")
    if last := _LAST.fullmatch(name):
        return _last(name, need, last[1] or "", int(last[2] or 0), probes)
    for folder in (Path(name), RUNS / name, ROOT / "runs" / name):
        if (folder / JOURNAL).exists():
            return folder
    if Path(name).is_dir():
        raise Failure(f"{name} is not a run: it has no {JOURNAL}")
    known = [folder.name for folder in run_folders()]
    if not known:
        raise _no_run(name)
    raise catalog.unknown("run", name, known)


def _no_run(name: str) -> Failure:
    where = " or ".join(str(shown(place)) for place in dict.fromkeys((RUNS, ROOT / "runs")))
    return Failure(f"there is no run {name!r}; no run was found in {where}")


def is_run(name: str) -> bool:
    """Returns whether a folder or a run has this name."""
    return any((place / name / JOURNAL).exists() for place in (Path(), RUNS, ROOT / "runs"))


def runs_and_words(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the names of runs, and the words that select rows after them. The words begin at the first glob,
    NAME=VALUE, or probe-like name that is no run."""
    for index, word in enumerate(given):
        if ({*"*?[="}.intersection(word) or _PROBE.fullmatch(word)) and not is_run(word):
            return list(given[:index]), list(given[index:])
    return list(given), []


def _last(name: str, need: Need, suite: str, before: int, probes: Sequence[str]) -> Path:
    """Returns the run to which LAST refers. Prints which run that is, and why younger runs do not count. name: as
    typed. need, probes: as in `find_run`. suite: its name, `time` for commands, or the typed probes and globs. before:
    number of matching runs to skip."""
    matching, others, is_any = list[Path](), dict[Path, str](), False
    for folder in _youngest_first():
        is_any = True
        if why := _unfit(folder, need, suite, probes):
            others[folder] = why
        else:
            matching.append(folder)
        if len(matching) > before:
            break
    if not is_any:
        raise _no_run(name)
    if not matching and probes:
        return _last(name, need, suite, before, ())
    if not matching and need == "ended" and not suite:
        # Without a completed run, the latest incomplete one is returned.
        return _last(name, "suite", suite, before, ())
    if suite and not matching:
        raise catalog.unknown(
            "suite with a run", suite, sorted({_suite_of(folder) for folder in _youngest_first()} - {""})
        )
    if before >= len(matching):
        reasons = sorted({why for why in others.values() if why})
        more = f"; the others: {'; '.join(reasons)}" if reasons else ""
        raise Failure(f"there is no run {name}: {len(matching)} of them are there{more}")
    passed = [] if suite else [*others]
    younger = f"; {shown(passed[0])} is younger, but {others[passed[0]]}" if passed else ""
    more = f", and so {len(passed) - 1} more" if len(passed) > 1 else ""
    notify(f"{name} is {shown(matching[before])}{younger}{more}")
    return shown(matching[before])


def _youngest_first() -> Iterator[Path]:
    """Yields the run that LAST's link points to, in any folder, then the runs that are not younger, youngest first."""
    link = next((place / LAST for place in (RUNS, ROOT / "runs") if (place / LAST / JOURNAL).exists()), None)
    last, ended = (link.resolve(), (link / JOURNAL).stat().st_mtime) if link else (None, inf)
    if last:
        yield last
    # Resolving 10,000 paths takes longer than the rest. Most are not links, so their one or two parents are resolved.
    resolved = {place: place.resolve() for place in (RUNS, ROOT / "runs")}
    for folder in reversed(run_folders()):
        run = folder.resolve() if os.path.islink(folder) else resolved[folder.parent] / folder.name  # noqa: PTH114
        if run != last and (run / JOURNAL).stat().st_mtime <= ended:
            yield run


def _unfit(folder: Path, need: Need, suite: str, probes: Sequence[str]) -> str:
    """Returns why LAST does not refer to a run, as part of a sentence; empty if it may."""
    if need == "any" and not suite and not probes:
        return ""
    try:
        request = read_request(folder)
    except Failure:
        return "it cannot be read"
    if suite and request.suite.name != suite:
        return f"it is of {request.suite.name}"
    if not suite and request.is_of_commands:
        return f"it is of commands ({LAST}:time)"
    if probes and not _asks_for(request, probes):
        return f"it has no {' or '.join(probes)}"
    return _unended(folder) if need == "ended" else ""


def _unended(folder: Path) -> str:
    if not has_ended(folder):
        return "it was interrupted"
    return "it has no number" if index_has_numbers(folder) is False else ""


def _asks_for(request: Request, probes: Sequence[str]) -> bool:
    """Returns whether a selection of a run's suite matches one of these names or globs; either side may be a glob."""
    selected = [select.probe for select in request.suite.select]
    return any(
        fnmatchcase(selection, name) or fnmatchcase(name, selection) for selection in selected for name in probes
    )


def _suite_of(folder: Path) -> str:
    with contextlib.suppress(Failure):
        return read_request(folder).suite.name
    return ""


def run_folders() -> list[Path]:
    """Returns the user's runs and those of the checkout, the oldest first. Of two runs with one name, the user's is
    returned."""
    return [place / name for place, name in run_places()]


def run_places() -> list[tuple[Path, str]]:
    """Returns the parent folder and the name of each run, oldest first; of two runs with one name, the user's. The two
    are not joined to a path: 10,000 joins take as long as the rest of a listing."""
    runs: dict[str, tuple[float, str, Path]] = {}
    for place in (ROOT / "runs", RUNS):
        runs |= {name: (moment, name, place) for name, moment in _journals(place).items()}
    return [(place, name) for _, name, place in sorted(runs.values())]


def runs_below(folders: Iterable[Path]) -> list[Path]:
    """Returns the runs that are, or are in, these folders, oldest first. A run that is named twice is returned once."""
    modified: dict[Path, float] = {}
    for folder in folders:
        if (folder / JOURNAL).is_file():
            modified[folder.resolve()] = (folder / JOURNAL).stat().st_mtime
        else:
            place = folder.resolve()
            modified |= {place / name: moment for name, moment in _journals(place).items()}
    return sorted(modified, key=lambda run: (modified[run], run.name))


def _journals(place: Path) -> dict[str, float]:
    """Returns the modification time of each run's journal in a folder, by the run's name."""
    modified = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(place):  # noqa: PTH208  a Path of each of 10,000 takes longer than their journals
            with contextlib.suppress(OSError):
                modified[name] = os.stat(f"{place}/{name}/{JOURNAL}").st_mtime  # noqa: PTH116
    modified.pop(LAST, None)
    return modified


def set_last_run(folder: Path) -> None:
    """Makes the link runs/LAST point to a run in any folder. Does nothing in a checkout that cannot be written."""
    with contextlib.suppress(OSError):
        RUNS.mkdir(exist_ok=True)
        half = RUNS / f".{LAST}.{os.getpid()}"
        run = folder.resolve()
        half.symlink_to(os.path.relpath(run, RUNS) if RUNS in run.parents else run)
        half.replace(RUNS / LAST)


def shown(path: Path) -> Path:
    """Returns the path in the form that a user would type here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
