# SPDX-License-Identifier: Apache-2.0
"""Verbs for authors of probes and of C code: `toll new`, `selftest`, `layout`, `casts`, `profile`."""

from __future__ import annotations

import linecache
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import print_columns, print_notice, print_view, write_json
from tollmeter.exit_codes import DONE, FAILED
from tollmeter.library import places
from tollmeter.library.options import names, seconds
from tollmeter.library.places import ROOT
from tollmeter.model import Abi, Failure, Profile
from tollmeter.protocol import clean
from tollmeter.root import IS_CHECKOUT, typed
from tollmeter.source.header_layout import SYSTEM, SYSTEM_TYPES, declared_in, including, read_types, types_named
from tollmeter.source.type_layout import Fact, differing_first, double_order, layout_table, read_layout
from tollmeter.toolchain import abis
from tollmeter.toolchain.build import build_header, build_layout, find_compiler, probe_names
from tollmeter.toolchain.packages import brought

if TYPE_CHECKING:
    from tollmeter.source.casts import Cast, CastSurvey


def new(
    what: Annotated[str, typer.Argument(help="probe")],
    name: Annotated[str, typer.Argument(help="FAMILY.NAME, as in kernel.getrandom")],
) -> None:
    check_known("new thing", what, ("probe",))
    print(places.shown(new_probe(places.ROOT, name)))
    next_step = f"measure it: `{typed('run', name)}`; format and check it: `make format lint`"
    print_notice(f"{next_step}; docs/add-a-probe.md describes how a probe is written")


def new_probe(tree: Path, name: str) -> Path:
    """Writes probes/FAMILY/NAME.c. Raises Failure: 2 for an invalid or existing name, 5 without a checkout."""
    match = re.fullmatch(r"([a-z]+)\.([a-z][a-z0-9_]*)", name)
    if match is None or match[1] == "runtime":
        raise Failure(f"{clean(name)!r} is not a probe name: expected FAMILY.NAME, as in kernel.getrandom")
    if name in probe_names(tree / "probes"):
        raise Failure(f"probe {name} already exists: choose another name")
    if not IS_CHECKOUT:
        raise Failure("this Tollmeter was installed without its sources: a new probe needs a checkout (git clone)", 5)
    path = tree / "probes" / match[1] / f"{match[2]}.c"
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write((tree / "probes/skeleton.c").read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}; a new probe needs a checkout of your own", 5) from error
    return path


# ---- selftest -------------------------------------------------------------------------------------------------------


def selftest() -> int:
    from tollmeter.conduct import Stopping
    from tollmeter.library.selftest import CAUGHT
    from tollmeter.library.selftest import selftest as planted

    began = time.monotonic()
    count = caught = 0
    with Stopping() as stopping:
        for lie in planted(stopping):
            count += 1
            caught += lie.outcome == CAUGHT
            outcome = lie.outcome if lie.outcome == CAUGHT else lie.outcome.upper()
            print(f"{outcome}  {lie.name} ({lie.planted}): {lie.by}", flush=True)
    print(f"{caught} of {count} lies were caught as expected, in {time.monotonic() - began:.0f} s")
    return DONE if caught == count else FAILED


# ---- layout ---------------------------------------------------------------------------------------------------------

BREAKS = {"": "", "code": "~", "file": "!"}


def layout(
    abi: Annotated[str | None, shared.abi("these; of a header all whose compiler is here")] = None,
    header: Annotated[
        Path | None,
        typer.Option(
            help="a C header, your own or as sys/stat.h, whose types are compared; CPATH=DIR adds folders of includes"
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--type", help="of the header only this: packet, or 'struct packet'")
    ] = None,
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
    only: Annotated[str, typer.Option(help="all facts, or differences")] = "all",
) -> None:
    check_known("choice", only, ("all", "differences"))
    check_known("format", form, shared.TABLE_OR_JSON)
    if kind and header is None:
        raise Failure(f"--type needs the header that defines {clean(kind)}: add --header FILE")
    compilers = _compilers(abi, whole=header is not None)
    layouts = {known.name: _facts(known, compiler, header, kind) for known, compiler in compilers}
    facts = differing_first(layout_table(layouts))
    rows = [_cells(fact) for fact in facts if only == "all" or fact.breaks]
    if form == "json":
        print_columns(("fact", *layouts, "breaks"), [(n, *values, b) for n, values, b in rows], form)
        return
    shown, alike = _unlike(layouts)
    for sentence in _what_breaks(facts, tuple(layouts), alike):
        print(sentence)
    indices = [list(layouts).index(name) for name in shown]
    marked = [(name, *(values[index] for index in indices), BREAKS[breaks]) for name, values, breaks in rows]
    columns = ("fact", *shown, "breaks")
    print_columns(columns, marked, form, narrow=len(columns), whole=columns[1:])


def _compilers(named: str | None, *, whole: bool) -> list[tuple[Abi, str]]:
    """Returns the compared ABIs with their compilers. named: ABIs as typed, with commas. whole: selects all ABIs with
    an installed compiler if none was named."""
    if named is None and whole:
        found = [(abi, find_compiler(abi)) for abi in abis.known_abis(ROOT).values() if abi.name != "native"]
        if here := [(abi, compiler) for abi, compiler in found if isinstance(compiler, str)]:
            return here
    known = {name: _known(name) for name in dict.fromkeys((named or "x86_64,ia32").split(","))}
    compilers = brought(ROOT, known)
    return [(known[name], compilers[name]) for name in known]


def _known(name: str) -> Abi:
    """Returns the ABI of this name. Raises Failure (2) if no file has it."""
    refused, known = abis.refused_abis(ROOT, [name]), abis.known_abis(ROOT, [name])
    if name in refused:
        raise Failure(refused[name])
    check_known("ABI", name, tuple(known))
    return known[name]


def _facts(abi: Abi, compiler: str, header: Path | None, kind: str | None) -> dict[str, str]:
    """Returns the facts of a header's types, else of the ABI's own types and of structures that system calls use."""
    with TemporaryDirectory(prefix="toll-") as scratch:
        path = Path(scratch) / "layout.o"
        facts: dict[str, str] = {}
        if header is None:
            build_layout(ROOT, abi, compiler, path)
            facts = read_layout(path)
        build_header(abi, compiler, SYSTEM if header is None else including(header), path)
        types = read_types(path)
        names = SYSTEM_TYPES if header is None else _asked_types(path, types, header, kind)
        return facts | {name: value for each in names for name, value in types.get(each, {}).items()}


def _asked_types(path: Path, types: Mapping[str, object], header: Path, kind: str | None) -> list[str]:
    """Returns the requested types. Raises Failure (2) for a type that the header does not have."""
    if kind is None:
        declared = declared_in(path, header)
        return sorted(declared) or [name for name in types if "__" not in name]
    if not (names := types_named(types, kind)):
        check_known("type", kind, sorted(types), f"in {header.name}")
    return names


def _cells(fact: Fact) -> tuple[str, tuple[str, ...], str]:
    values = tuple(map(double_order, fact.values)) if fact.name.startswith("double") else fact.values
    return fact.name, values, fact.breaks


def _unlike(layouts: Mapping[str, Mapping[str, str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the ABIs whose facts differ from those of all previous ABIs, and for each the later ABIs with the same
    facts."""
    alike: dict[str, list[str]] = {}
    for name, facts in layouts.items():
        first = next((other for other in alike if layouts[other] == facts), None)
        if first is None:
            alike[name] = []
        else:
            alike[first].append(name)
    return list(alike), alike


def _what_breaks(facts: tuple[Fact, ...], names: tuple[str, ...], alike: Mapping[str, list[str]]) -> Iterator[str]:
    if len(names) < 2:
        return
    in_files = sum(fact.breaks == "file" for fact in facts)
    apart = sum(bool(fact.breaks) for fact in facts)
    yield f"{apart} of {len(facts)} facts differ between {', '.join(names)}."
    if apart:
        yield f"{in_files} marked ! break a file, wire format or system call that holds the type as it lies in memory."
        yield f"{apart - in_files} marked ~ break only code that assumes the number."
    if any("." in fact.name.split()[-1] and "(" in fact.values[0] for fact in facts):
        yield "A field is shown as its offset and (size), in bytes."
    for name, others in alike.items():
        if others:
            yield f"As {name}: {', '.join(others)}."


# ---- casts ----------------------------------------------------------------------------------------------------------

_STRICT = ("sparc64", "mipsel", "arm-soft")
"""ABIs whose CPUs trap on a misaligned access, or load other bytes; the first one that can be compiled here is used."""


def casts(
    folder: Annotated[Path, typer.Argument(help="a tree with its compile_commands.json, or that file")],
    *,
    abi: Annotated[str | None, shared.abi(f"the first here of {', '.join(_STRICT)}")] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="list what is right on this ABI and wrong on that of --abi, as x86_64 and x32"),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(help="a probe of this tree, and NAME=VALUE: the casts that it runs most come first"),
    ] = None,
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
) -> int:
    from tollmeter.report.numbers import count
    from tollmeter.source.casts import ranked_casts

    survey, summary = _width_survey(folder, source, abi) if source else _strict_survey(folder, abi)
    if probe:
        from tollmeter.library.profiling import executed_lines

        rows = ranked_casts(survey.casts, executed_lines(probe.split()))
    else:
        rows = ranked_casts(survey.casts)
    if rows or form != "table":
        cells = [_casts_cells(cast, "no warning" if source else "void *") for cast in rows]
        names = ("times", "place", "through", "source", "cast")
        first = 0 if probe else 1
        print_columns(names[first:], [line[first:] for line in cells], form, narrow=4 - first, whole=names[:3])
    for file, trouble in survey.troubles.items():
        print_notice(f"{file} cannot be read: {trouble}")
    unread = len(survey.troubles)
    read = f"{survey.units - unread} of {count(survey.units, 'file')}" if unread else count(survey.units, "file")
    hidden = sum(cast.hidden for cast in rows)
    shown_casts, every = count(len(rows) - hidden, "cast"), count(len(rows), "place")
    print_notice(summary.format(shown=shown_casts, hidden=hidden, every=every, read=read))
    return FAILED if survey.units and len(survey.troubles) == survey.units else 0


def _strict_survey(folder: Path, abi: str | None) -> tuple[CastSurvey, str]:
    from tollmeter.source.casts import misaligned_casts, units_of

    units = units_of(folder)
    chosen, compiler = _compiler(abi)
    return misaligned_casts(units, chosen, compiler), (
        "{shown} in {read}, and {hidden} more through void *, whose object may be aligned "
        f"where it is allocated; by {compiler} for {chosen.name}. Casts by way of an integer are not listed"
    )


def _width_survey(folder: Path, source: str, abi: str | None) -> tuple[CastSurvey, str]:
    from tollmeter.source.casts import WIDTH_LANGUAGES, units_of, width_casts

    units = units_of(folder, WIDTH_LANGUAGES)
    written_for, ported_to = _compiler(source), _compiler(abi or "x32")
    names = f"{written_for[0].name} and wrong on {ported_to[0].name}"
    return width_casts(units, written_for, ported_to), (
        f"{{every}} in {{read}} are right on {names}; of {{hidden}} of them no compiler "
        "warns. What always fits is among them; an explicit cast of C++ and a product that overflows are not"
    )


def _casts_cells(cast: Cast, hidden: str) -> tuple[str, ...]:
    written = linecache.getline(cast.file, cast.line).strip()
    return str(cast.hits), f"{cast.file}:{cast.line}", hidden if cast.hidden else "", written, cast.message


def _compiler(name: str | None) -> tuple[Abi, str]:
    """Returns the ABI of this name and its compiler. Raises Failure: 2 if no file has the name, 5 if it cannot be
    compiled here."""
    candidates = [_known(name)] if name is not None else [*map(_known, _STRICT)]
    for candidate in candidates:
        compiler = find_compiler(candidate)
        if isinstance(compiler, str):
            return candidate, compiler
    first = candidates[0]
    return first, brought(ROOT, {first.name: first})[first.name]


# ---- profile --------------------------------------------------------------------------------------------------------

_WAYS = ("perf", "signal")
LEAST_S, MOST_S, LASTING = 0.1, 60.0, "2s"


def profile(
    words: Annotated[list[str], typer.Argument(help="one probe or two, and NAME=VALUE")],
    *,
    abi: Annotated[str | None, shared.abi("this machine's")] = None,
    target: Annotated[str | None, shared.target("local or qemu-user")] = None,
    lasting: Annotated[str | None, shared.lasting(f"each profile [{LASTING}]")] = None,
    way: Annotated[str, typer.Option(help="perf, the kernel's CPU clock where it is allowed; or signal")] = "perf",
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
) -> int:
    from tollmeter.library.profiling import points_of, take_all
    from tollmeter.targets.profiling_visit import ProfileRequest

    check_known("format", form, shared.TABLE_OR_JSON)
    check_known("way", way, _WAYS)
    lasting_s = seconds(lasting or LASTING)
    if not LEAST_S <= lasting_s <= MOST_S:
        raise Failure(f"--for {lasting}: expected {LEAST_S:g} to {MOST_S:g} s")
    request = ProfileRequest(round(1000 * lasting_s), way == "signal")
    profiles = take_all(points_of(words, names(abi), names(target)), request)
    if form == "json":
        write_json(profiles)
    else:
        _print(profiles)
        _print_chosen(words, profiles, {"--abi": abi, "--target": target, "--for": lasting})
    return FAILED if all(profile_.reason for profile_ in profiles) else 0


def _print(profiles: list[Profile]) -> None:
    from tollmeter.report.profiles import alone, side_by_side

    for profile in profiles:
        if profile.reason:
            print_notice(f"{profile.probe} {profile.abi}: no profile: {profile.reason}")
    with_functions = [profile for profile in profiles if not profile.reason]
    if len(with_functions) == 2:
        print_view(side_by_side(with_functions[0], with_functions[1]))
    else:
        print_view(block for profile in with_functions for block in alone(profile))


def _print_chosen(words: list[str], profiles: list[Profile], typed_options: dict[str, str | None]) -> None:
    """Prints the defaults of parameters and options that were not typed. typed_options: value of each option, None if
    it was not typed."""
    named = {word.partition("=")[0] for word in words if "=" in word}
    values = {
        f"{name}={value}" for profile in profiles for name, value in profile.parameters.items() if name not in named
    }
    chosen = {"--abi": profiles[0].abi, "--target": profiles[0].target, "--for": LASTING}
    options = {f"{option} {value}" for option, value in chosen.items() if typed_options[option] is None}
    if values or options:
        print_notice(f"chosen by default: {', '.join([*sorted(values), *sorted(options)])}")
