# SPDX-License-Identifier: Apache-2.0
"""Writes TOML 1.0: tables, arrays of tables, and the scalars of the host's own records. Reading is tomllib's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


def dumps(table: Mapping[str, Any]) -> str:
    """None has no form in TOML and is left out. Keys are bare or quoted as they need to be."""
    return "\n".join(_table(table, ())) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if _is_table(value) or _is_array_of_tables(value)}
    for key, value in table.items():
        if key not in inner and value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner.items():
        name = ".".join(map(_key, (*path, key)))
        for item in [value] if _is_table(value) else value:
            yield ""
            yield f"[{name}]" if _is_table(value) else f"[[{name}]]"
            yield from _table(item, (*path, key))


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_array_of_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_table, value))


def _key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else _value(key)


def _value(value: Any) -> str:
    """JSON's strings and numbers are valid TOML, except for the one control character that JSON permits."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
