# SPDX-License-Identifier: Apache-2.0
"""Finds casts of a source tree that are wrong under another ABI: that ABI's compiler reads each translation unit."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter import commands
from tollmeter.model import Abi, Failure, Record
from tollmeter.toolchain.symbols import LineHits

DATABASE = "compile_commands.json"
_LASTS_S = 120
"""Seconds after which a compiler is ended."""
Diagnostic = dict[str, Any]
"""One warning or error of a compiler, in the form of -fdiagnostics-format=json."""
_ARRAY, _JSON = re.compile(r"^\[", re.MULTILINE), json.JSONDecoder()
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)$')
_TAKES_A_WORD = ("-o", "-MF", "-MT", "-MQ")
_OWN_CPU = ("-m", "-W", "-O", "-g", "-fsanitize", "-fcf-protection")
_LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".C": "c++"}


class Unit(Record, frozen=True):
    """One entry of a compilation database."""

    directory: str
    file: str
    command: str = ""
    arguments: tuple[str, ...] = ()


class Cast(NamedTuple):
    """A position that a compiler warns of. hits: samples of this line, or of a later line of its function, where the
    cast pointer is used; 0 without a profile. hidden: the compiler warns only of the rewritten text."""

    file: str
    line: int
    message: str
    hits: int = 0
    hidden: bool = False


class CastSurvey(NamedTuple):
    """The casts of a tree. troubles: why a translation unit could not be read, by its file."""

    casts: tuple[Cast, ...]
    units: int
    troubles: dict[str, str]


class Reader(NamedTuple):
    """Reads one translation unit as an ABI's compiler does."""

    unit: Unit
    abi: Abi
    compiler: str

    @property
    def language(self) -> str:
        return _LANGUAGES[Path(self.unit.file).suffix]

    def diagnostics(self, options: Sequence[str], text: str | None = None) -> list[Diagnostic]:
        """Returns the warnings and errors of gcc for the file, or for a preprocessed text in its place. options:
        further options of gcc."""
        if text is None:
            source = ["-x", self.language, self.unit.file]
        else:
            source = ["-fno-builtin", "-x", "cpp-output" if self.language == "c" else "c++-cpp-output", "-"]
        output = self._run(["-fsyntax-only", "-fdiagnostics-format=json", *options, *source], text).stderr
        # gcc writes one JSON array for each file that it reads: up to version 13 in one line, and then over many.
        diagnostics: list[Diagnostic] = []
        end = 0
        while match := _ARRAY.search(output, end):
            array, end = _JSON.raw_decode(output, match.start())
            diagnostics += array
        return diagnostics

    def preprocessed(self) -> str:
        return self._run(["-E", "-x", self.language, self.unit.file]).stdout

    def cast(self, diagnostic: Diagnostic, message: str, hidden: bool = False) -> Cast:
        """Returns a cast at the position that the compiler reports, relative to the current folder if it is
        below it."""
        file, line, _ = _place(diagnostic)
        path = (Path(self.unit.directory) / file).resolve()
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return Cast(str(shown), line, message, hidden=hidden)

    def _run(self, options: Sequence[str], text: str | None = None) -> commands.CompletedProcess[str]:
        """Runs the compiler with the flags that determine how the file is read: without output and without flags of
        another CPU."""
        given = iter((self.unit.arguments or shlex.split(self.unit.command))[1:])
        kept: list[str] = []
        for word in given:
            if word in _TAKES_A_WORD:
                next(given, "")
            elif not word.startswith(_OWN_CPU) and word not in ("-c", "-MD", "-MMD", "-MP", self.unit.file):
                kept.append(word)
        words = [*self.compiler.split(), *self.abi.flags, *kept, *options]
        return commands.run(
            "file", words, cwd=self.unit.directory, input=text, capture_output=True, text=True, errors="replace",
            timeout=_LASTS_S, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip


def units_of(folder: Path, languages: Sequence[str] = ("c",)) -> list[Unit]:
    """Returns the files of a tree with their compile commands. Raises Failure (2) if these are missing."""
    path = folder / DATABASE if folder.is_dir() else folder
    try:
        read = msgspec.json.decode(path.read_bytes(), type=list[Unit])
    except FileNotFoundError as error:
        if not folder.exists():
            raise Failure(f"folder {folder} does not exist") from error
        raise Failure(
            f"{path} does not exist; it states how each file is compiled: "
            "`cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON .` or `bear -- make` writes it"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(f"{path} is not a compilation database: {error}") from error
    root = path.absolute().parent
    absolute = (msgspec.structs.replace(unit, directory=str(root / unit.directory)) for unit in read)
    return [unit for unit in absolute if _LANGUAGES.get(Path(unit.file).suffix) in languages]


def _survey(units: Sequence[Unit], read: Callable[[Unit], CastSurvey]) -> CastSurvey:
    """Returns every position that a compiler warns of, each once, in the order of the files."""

    def read_or_trouble(unit: Unit) -> CastSurvey:
        try:
            return read(unit)
        except (OSError, commands.TimeoutExpired, ValueError) as error:
            return CastSurvey((), 1, {unit.file: str(error)})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        surveys = list(pool.map(read_or_trouble, units))
    distinct = dict.fromkeys(cast for survey in surveys for cast in survey.casts)
    troubles = {file: reason for survey in surveys for file, reason in survey.troubles.items()}
    return CastSurvey(tuple(distinct), len(units), troubles)


def rewritten(text: str, rewrite_line: Callable[[str], str]) -> str:
    """Returns a preprocessed text with each of the tree's own lines changed; lines of system headers, which line
    markers show, are unchanged. rewrite_line: returns the new text of a line."""
    lines = []
    is_ours = True
    for written in text.splitlines(keepends=True):
        marker = _MARKER.match(written)
        if marker:
            is_ours = "3" not in marker[3].split()
        lines.append(rewrite_line(written) if is_ours and not marker else written)
    return "".join(lines)


def errors(diagnostics: Iterable[Diagnostic], kinds: Sequence[str] = ("error", "fatal error")) -> list[str]:
    return [str(diagnostic["message"]) for diagnostic in diagnostics if diagnostic.get("kind") in kinds]


def _place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    """Returns file, line and column; an empty name if there is no file."""
    if not diagnostic["locations"]:
        return "", 0, 0
    caret = diagnostic["locations"][0]["caret"]
    return str(caret["file"]), int(caret["line"]), int(caret["column"])


def _is(diagnostic: Diagnostic, option: str) -> bool:
    return str(diagnostic.get("option", "")).startswith(option)


# ---- misaligned casts ------------------------------------------------------------------------------------------------

# Casts of a C tree to a type whose alignment the bytes may not have: found by the compiler of a strict ABI.
# `-Wcast-align=strict` warns of each pointer that is cast to a type of a larger alignment, whatever the CPU. No
# compiler can know whether the bytes are misaligned in fact, or how often the line runs: a profile shows the latter.
#
# No compiler warns of casts through a `void *` either: it assumes that the address is aligned. So the compiler reads
# the preprocessed file once more with each `void *` of the tree as `char *`, and then warns of these casts as of any
# other. A conversion without a cast becomes an incompatible pointer; a further line for each type shows whether a cast
# to it would be warned of. System headers stay as they are: what malloc returns is aligned.

_ALIGNMENT, _PACKED, _STRICT = "-Wcast-align", "-Waddress-of-packed-member", ("-Wcast-align=strict",)
_VOID = re.compile(r"\bvoid(?=(?:\s|\bconst\b|\bvolatile\b)*\*(?!\s*\)\s*0\b))")
"""The target `void` of a pointer; except of a null pointer, which is a constant only as `void *`."""
_BYTES = r"'(?:const |volatile )*char \*'"
_TYPE = r"'([^']+)'(?: \{aka '[^']+'\})?"
_RESOLVED = r"'([^']+)'(?: \{aka '([^']+)'\})?"
_CONVERTED = [
    re.compile(form)
    for form in (
        rf"(?:initialization of|assignment to) {_TYPE} from incompatible pointer type {_BYTES}",
        rf"returning {_BYTES} from a function with incompatible return type {_TYPE}",
        rf"expected {_TYPE} but argument is of type {_BYTES}",
    )
]
_ASKED = "types that void * was converted to"


def misaligned_casts(units: Sequence[Unit], abi: Abi, compiler: str) -> CastSurvey:
    return _survey(units, lambda unit: _misaligned(Reader(unit, abi, compiler)))


def ranked_casts(casts: Iterable[Cast], hits: LineHits = lambda _file, _line: 0) -> list[Cast]:
    """Returns casts in order: the most often executed first; then those of compiler warnings before hidden ones."""
    counted = [cast._replace(hits=hits(Path(cast.file).name, cast.line)) for cast in casts]
    return sorted(counted, key=lambda cast: (-cast.hits, cast.hidden, cast.file, cast.line))


def _misaligned(reader: Reader) -> CastSurvey:
    diagnostics = reader.diagnostics(_STRICT)
    casts = [
        reader.cast(entry, str(entry["message"]))
        for entry in diagnostics
        if _is(entry, _ALIGNMENT) or _is(entry, _PACKED)
    ]
    if failures := errors(diagnostics):
        return CastSurvey(tuple(casts), 1, {reader.unit.file: failures[0]})
    places = {(cast.file, cast.line) for cast in casts}
    casts += [cast for cast in _void_casts(reader) if (cast.file, cast.line) not in places]
    return CastSurvey(tuple(casts), 1, {})


def _void_casts(reader: Reader) -> list[Cast]:
    """Returns casts of a `void *` to a pointer to a type with an alignment requirement."""
    text = rewritten(reader.preprocessed(), lambda line: _VOID.sub("char", line))
    diagnostics = reader.diagnostics(_STRICT, text)
    warning = "cast of void * to a type that wants an alignment"
    casts = [reader.cast(entry, warning, hidden=True) for entry in diagnostics if _is(entry, _ALIGNMENT)]
    incompatible = [entry for entry in diagnostics if _is(entry, "-Wincompatible-pointer-types")]
    converted = [(entry, name) for entry in incompatible if (name := _converted_to(entry))]
    strict = _strict_types(reader, text, list(dict.fromkeys(name for _, name in converted)))
    return casts + [
        reader.cast(entry, f"void * becomes {name} without a cast", hidden=True)
        for entry, name in converted
        if name in strict
    ]


def _converted_to(diagnostic: Diagnostic) -> str | None:
    """Returns the name of the pointer type to which a `char *` is converted, from the diagnostic or its notes; None for
    another diagnostic."""
    messages = [str(part["message"]) for part in (diagnostic, *diagnostic.get("children", ()))]
    return next((match[1] for form in _CONVERTED for text in messages if (match := form.search(text))), None)


def _strict_types(reader: Reader, text: str, types: Sequence[str]) -> set[str]:
    """Returns the pointer types whose target has a larger alignment than a byte, or is incomplete at the end of the
    file."""
    if not types:
        return set()
    asked = "".join(f"void toll_asks_{line}(char *at) {{ (void)({name})at; }}\n" for line, name in enumerate(types, 1))
    diagnostics = reader.diagnostics(_STRICT, f'{text}\n# 1 "{_ASKED}"\n{asked}')
    reported = [entry for entry in diagnostics if _is(entry, _ALIGNMENT) or entry["kind"] == "error"]
    lines = {line for file, line, _ in map(_place, reported) if file == _ASKED}
    return {name for line, name in enumerate(types, 1) if line in lines}


# ---- casts of a width ------------------------------------------------------------------------------------------------

# Lines of C and C++ that are right where `long`, pointers and time_t have one ABI's widths and wrong where they have
# another's: the compiler of the second ABI reports them, and that of the first does not.
#
# A format is judged by widths: gcc warns of `%d` for a `long` of 32 bits too, and of `%llu` for a uint64_t.
#
# No compiler warns of an explicit cast of a time_t to a `long`. So each reads a preprocessed C file once more, with
# every cast of the tree to a type as wide as a pointer turned into one to a pointer. It then warns of each operand of
# another width; g++ does not warn of wider ones. Where pointers become wider, casts to 32 bits are turned so: an
# operand without a warning is as wide as a pointer, under both ABIs. A cast of `&name` to another pointer is left out,
# so that gcc names both types.
#
# No compiler warns of a comparison with 0xffffffff, of a result of strtoul in 64 bits, or of `pages << 12`. There a
# structure takes the constant's place: the compiler refuses it, and names the type of the other operand.

WIDTH_LANGUAGES = ("c", "c++")
_WIDTHS = ("-Wformat", "-Wconversion", "-Wno-sign-conversion", "-Wno-float-conversion")
_FORMAT = "-Wformat"
_TO_POINTER = "-Wint-to-pointer-cast"
_AS_WIDE = r"(?:(?:un)?signed\s+)?long(?:\s+(?:un)?signed)?(?:\s+int)?|s?size_t|u?intptr_t|ptrdiff_t"
_CAST = re.compile(rf"\(\s*(?:const\s+)?(?:{_AS_WIDE})\s*\)")
_TO_32_BITS = re.compile(
    r"(?<![\w)])(?<!sizeof )\(\s*(?:const\s+)?(?:(?:un)?signed(?:\s+int)?|int|u?int32_t)\s*\)"
    r"(?=\s*[a-z_*&(])(?!\s*sizeof\b)"
)
"""A cast to 32 bits; except of a constant, which is a digit, or a name in capitals: an enumerator once macros are
replaced."""
_WIDER = "cast of an integer that is wider than the type"


def width_casts(units: Sequence[Unit], source: tuple[Abi, str], target: tuple[Abi, str]) -> CastSurvey:
    """Returns casts that change with type widths. source, target: the ABI that the tree is written for and the ABI that
    it is ported to, each with a compiler."""
    return _survey(units, lambda unit: _of_widths(Reader(unit, *source), Reader(unit, *target)))


def _of_widths(source: Reader, target: Reader) -> CastSurvey:
    # g++ refuses a cast of a pointer to a shorter integer, of which gcc warns.
    options = (*_WIDTHS, "-fpermissive") if source.language == "c++" else _WIDTHS
    before, after = (_without_equal_widths(reader, reader.diagnostics(options)) for reader in (source, target))
    if failures := errors(before) or errors(after, ("fatal error",)):
        return CastSurvey((), 1, {source.unit.file: failures[0]})
    reported = _new(before, after)
    casts = [target.cast(entry, str(entry["message"])) for entry in reported]
    if source.language == "c":
        places = {_place(entry)[:2] for entry in reported}
        more = _explicit(source, target) + _unwarned(source, target)
        casts += [target.cast(entry, text, hidden=True) for entry, text in more if _place(entry)[:2] not in places]
    return CastSurvey(tuple(dict.fromkeys(casts)), 1, {})


def _explicit(source: Reader, target: Reader) -> list[tuple[Diagnostic, str]]:
    """Returns explicit casts that lose bits under the target's ABI only, each with a message."""
    source_bits, target_bits = (_pointer_bits(reader.abi) for reader in (source, target))
    if target_bits < source_bits:
        new = _new(_of_pointers(source, _CAST), _of_pointers(target, _CAST))
        return [(entry, _WIDER) for entry in new]
    if target_bits == source_bits:
        return []
    kept = [_kept_as_wide(reader) for reader in (source, target)]
    return [(_at(*place), _WIDER) for place in sorted(kept[0] & kept[1])]


def _of_pointers(reader: Reader, form: re.Pattern[str]) -> list[Diagnostic]:
    text = rewritten(reader.preprocessed(), lambda line: form.sub("(char *)", line))
    return [diagnostic for diagnostic in reader.diagnostics((), text) if diagnostic.get("option") == _TO_POINTER]


def _kept_as_wide(reader: Reader) -> set[tuple[str, int, int]]:
    """Returns positions of the casts to 32 bits whose operand is as wide as a pointer."""
    cast = re.compile(r"\(char \*\)")
    original = rewritten(reader.preprocessed(), lambda line: cast.sub("(void *)", line))
    text = rewritten(original, lambda line: _TO_32_BITS.sub("(char *)", line))
    diagnostics = reader.diagnostics((), text)
    refused = {_place(entry)[:2] for entry in diagnostics if entry["kind"] == "error"}
    other = {_place(entry) for entry in diagnostics if entry.get("option") == _TO_POINTER}
    return {place for place in _places_of(cast, text) if place not in other and place[:2] not in refused}


def _places_of(form: re.Pattern[str], text: str) -> Iterator[tuple[str, int, int]]:
    """Yields file, line and column of each match in the tree's own lines of a preprocessed text."""
    file, line, is_ours = "", 0, True
    for written in text.splitlines():
        if marker := _MARKER.match(written):
            line, file, is_ours = int(marker[1]), marker[2], "3" not in marker[3].split()
            continue
        if is_ours:
            yield from ((file, line, match.start() + 1) for match in form.finditer(written))
        line += 1


def _at(file: str, line: int, column: int) -> Diagnostic:
    return {"locations": [{"caret": {"file": file, "line": line, "column": column}}]}


# Errors where a structure replaces a constant or a function's value; they name the type of the other operand.
_STRUCTURE = "struct toll_structure"
_OPERAND = re.compile(rf"invalid operands to binary \S+ \(have {_RESOLVED} and '{_STRUCTURE}'\)")
_TAKEN = re.compile(
    rf"(?:initializing type {_RESOLVED} using|assigning to type {_RESOLVED} from|but {_RESOLVED} was expected)"
)


class _Hint(NamedTuple):
    """A rewriting rule. form: the replaced text. by_long: whether the replaced operand has the width of a long rather
    than 32 bits. said: the message for a position where the other operand is wider under the second ABI only; for
    shifts, narrower than under the first."""

    form: re.Pattern[str]
    replacement: str
    by_long: bool
    said: str
    is_shift: bool = False


_ZERO = f"({_STRUCTURE}){{0}}"
_HINTS = (
    _Hint(
        re.compile(r"([!=]=\s*)0[xX][fF]{8}[uU]?\b"), rf"\1{_ZERO}", False,
        "compared with all bits of 32, and has more",
    ),
    _Hint(
        re.compile(r"([!=]=\s*)(?:\(\s*(?:unsigned long(?: int)?|size_t)\s*\)\s*-\s*1|~\s*0[uU]?[lL]+[uU]?)(?!\w)"),
        rf"\1{_ZERO}", True, "compared with all bits of a long, and has more",
    ),
    _Hint(
        re.compile(r"\b(?:strtou?l|atol|ftell|lrint|lround)(?=\s*\()"), "toll_long", True,
        "gets a long, which has fewer bits",
    ),
    _Hint(
        re.compile(r"(?<=[A-Za-z_\])] )(<<\s*)(?:1[0-9]|2[0-9]|3[01])\b"), rf"\1{_ZERO}", True,
        "shifted in fewer bits than before", is_shift=True,
    ),
)  # fmt: skip
_DECLARED = f"{_STRUCTURE} {{ int of; }};\n{_STRUCTURE} toll_long();\n"


def _unwarned(source: Reader, target: Reader) -> list[tuple[Diagnostic, str]]:
    found = []
    for hint in _HINTS:
        before, after = (_types_beside(reader, hint) for reader in (source, target))
        for at, (entry, is_wrong) in after.items():
            was_wrong = before.get(at, (entry, True))[1]
            if is_wrong and not was_wrong:
                found.append((entry, hint.said))
    known = {_place(entry) for entry in _pointers_to_another_width(source)}
    text = "pointer to a type of another width"
    return found + [(entry, text) for entry in _pointers_to_another_width(target) if _place(entry) not in known]


_POINTER_CAST = re.compile(r"\(\s*(?:const\s+)?(?:struct\s+)?\w+(?:\s+\w+)*\s*\*\s*\)(?=\s*&)")
_INCOMPATIBLE = "-Wincompatible-pointer-types"
_QUOTED_TYPE = re.compile(_RESOLVED)


def _pointers_to_another_width(reader: Reader) -> Iterator[Diagnostic]:
    """Yields casts of `&name` to a pointer to a type whose width differs from the name's."""
    changed = rewritten(reader.preprocessed(), lambda line: _POINTER_CAST.sub("", line))
    for entry in reader.diagnostics((), changed):
        if not _is(entry, _INCOMPATIBLE):
            continue
        messages = " ".join(str(part["message"]) for part in (*entry.get("children", ()), entry))
        named = [match[2] or match[1] for match in _QUOTED_TYPE.finditer(messages)]
        kinds = [_width(name, _pointer_bits(reader.abi)) for name in named if "*" in name][:2]
        if len(kinds) == 2 and kinds[0] and kinds[1] and kinds[0].bits != kinds[1].bits:
            yield entry


def _types_beside(reader: Reader, hint: _Hint) -> dict[tuple[str, int, int], tuple[Diagnostic, bool]]:
    """Returns by position each error at an occurrence of the form, and whether the other operand has a wrong width."""
    text = reader.preprocessed()
    if not any(True for _ in _places_of(hint.form, text)):
        return {}
    changed = rewritten(text, lambda line: hint.form.sub(hint.replacement, line))
    found = {}
    expected_bits = _pointer_bits(reader.abi) if hint.by_long else 32
    for entry in reader.diagnostics((), f"{_DECLARED}{changed}"):
        match = _OPERAND.search(str(entry["message"])) or _TAKEN.search(str(entry["message"]))
        kind = match and _width(next(filter(None, match.groups()[::-1])), _pointer_bits(reader.abi))
        if kind:
            is_wrong = kind.bits < 64 and kind.is_of_long if hint.is_shift else kind.bits > expected_bits
            found[_place(entry)] = entry, is_wrong
    return found


# ---- widths of types -------------------------------------------------------------------------------------------------

_BITS = {"char": 8, "_Bool": 8, "short": 16, "float": 32, "double": 64}
_EXPECTS = re.compile(rf"expects argument of type {_RESOLVED}, but argument \d+ has type {_RESOLVED}")


class _Kind(NamedTuple):
    """A type of C: levels of indirection, bits, and whether it is a float. is_of_long: whether its name contains
    long."""

    pointers: int
    bits: int
    is_float: bool
    is_of_long: bool = False


def _pointer_bits(abi: Abi) -> int:
    """Returns the bits of a pointer, and of a long under every supported ABI."""
    return int(abi.elf.get("class", 64))


def _width(name: str, pointer_bits: int) -> _Kind | None:
    """Returns the width of a type whose typedefs are resolved; None for a structure or another type without a fixed
    width."""
    words = re.sub(r"\b(?:const|volatile|restrict)\b", " ", name).replace("*", " ").split()
    pointers, longs = name.count("*"), words.count("long")
    if not words or not {*words} <= {*_BITS, "int", "long", "signed", "unsigned"}:
        return None
    bits = next((_BITS[word] for word in words if word in _BITS), 32)
    if longs:
        bits = 64 if longs > 1 else pointer_bits
    if "double" in words and longs:
        bits = 128
    return _Kind(pointers, bits, bool({"float", "double"} & {*words}), longs == 1)


def _without_equal_widths(reader: Reader, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Returns diagnostics without format warnings whose argument has the expected width."""
    return [entry for entry in diagnostics if not _is(entry, _FORMAT) or not _is_of_one_width(reader, entry)]


def _is_of_one_width(reader: Reader, entry: Diagnostic) -> bool:
    match = _EXPECTS.search(str(entry["message"]))
    if not match:
        return False
    bits = _pointer_bits(reader.abi)
    expected, given = (_width(match[at + 1] or match[at], bits) for at in (1, 3))
    return expected is not None and given is not None and expected[:3] == given[:3]


def _new(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Returns the diagnostics of the second list that have a position and are not in the first one; the last one of
    each position and option."""

    def key(diagnostic: Diagnostic) -> tuple[object, ...]:
        return *_place(diagnostic), str(diagnostic.get("option", ""))

    known = {key(diagnostic) for diagnostic in before}
    reports = {key(diagnostic): diagnostic for diagnostic in after if diagnostic["locations"]}
    return [diagnostic for at, diagnostic in reports.items() if at not in known]
