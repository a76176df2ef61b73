# SPDX-License-Identifier: Apache-2.0
"""No function is longer than a person can hold in mind."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidy.house import hold, text, under

MOST_LINES = 70

# As the formatters leave it: a head stands at the margin, perhaps over several lines, and a lone brace closes the body.
C_FUNCTION = re.compile(r"^([A-Za-z_][^;{}=#]*\)) \{\n.*?^\}$", re.MULTILINE | re.DOTALL)
PYTHON_FUNCTION = re.compile(r"\s*(?:async )?def (\w+)")
LONG_STRING = re.compile(r"(\"{3}|'{3})(?:\\.|.)*?\1", re.DOTALL)
SH_FUNCTION = re.compile(r"^(\w+\(\)) \{\n.*?^\}$", re.MULTILINE | re.DOTALL)


def braced(source: str, function: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """Functions that end with a brace at the margin: what they are called, and their lines."""
    for match in function.finditer(source):
        yield " ".join(match[1].split()), match[0].count("\n") + 1


def indented(source: str) -> Iterator[tuple[str, int]]:
    """Python's functions and their lines, those inside others too: to where a line begins no further in. To parse every
    file for it would take five seconds."""
    lines = LONG_STRING.sub(lambda match: "\n".join('"' * len(match[0].split("\n"))), source).splitlines()
    begun: list[tuple[int, str, int]] = []
    last = 0
    for number, line in enumerate([*lines, "end"], 1):
        inside = len(line) - len(line.lstrip())
        if not line.strip() or line.lstrip().startswith((")", "]", "}", '"', "#")):
            last = number if line.strip() and not line.lstrip().startswith("#") else last
            continue
        while begun and inside <= begun[-1][0]:
            _, name, first = begun.pop()
            yield name, last - first + 1
        if found := PYTHON_FUNCTION.match(line):
            begun.append((inside, found[1], number))
        last = number


def functions(name: str) -> Iterator[tuple[str, int]]:
    if name.endswith(".py"):
        return indented(text(name))
    return braced(text(name), C_FUNCTION if name.endswith((".c", ".cc", ".h")) else SH_FUNCTION)


def test_no_function_is_over_70_lines() -> None:
    sources = [*under("", ".py", ".c", ".cc", ".h"), "toll"]
    sizes = {(name, title): lines for name in sources for title, lines in functions(name)}
    assert len({name for name, _ in sizes}) > len(sources) // 2, "functions are no longer found: mend the search"
    hold(
        f"{name}: {title} has {lines} lines; split it, {MOST_LINES} are the most"
        for (name, title), lines in sizes.items()
        if lines > MOST_LINES
    )


def test_the_search_finds_what_is_there() -> None:
    c = "static int f(int a,\n             int b) {\n  if (a) {\n  }\n}\nstruct x {\n};\nint g() {\n}\nint h();\n"
    assert dict(braced(c, C_FUNCTION)) == {"static int f(int a, int b)": 5, "int g()": 2}
    assert [lines for _, lines in braced("set_up() {\n  :\n}\n", SH_FUNCTION)] == [3]
    assert dict(indented("def a():\n  def b():\n    pass\n  return b\n")) == {"a": 4, "b": 2}
