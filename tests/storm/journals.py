# SPDX-License-Identifier: Apache-2.0
"""Crafted journals: cut, flipped, swapped, doubled, and with values that no probe would give, sealed as if true."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storm.ended import Hung, Tally, one_command, within
from tollmeter.cli.main import main
from tollmeter.store.journal import NAME

RECORDED = Path(__file__).parents[1] / "recordings/format-2"
VERBS = (
    ["show"], ["show", "--all"], ["show", "--format", "json"], ["show", "--format", "csv"], ["show", "--format", "md"],
    ["show", "--raw"], ["export"], ["export", "--what", "samples"],
    ["export", "--what", "samples", "--format", "jsonl"],
    ["export", "--format", "parquet", "--out", "{out}/rows.parquet"], ["export", "--format", "lmbench"], ["report"],
    ["compare", "{other}"], ["gate", "{other}"], ["gallery", "--out", "{out}/gallery"],
    ["publish", "--out", "{out}/published"], ["history"], ["profile"],
)  # fmt: skip
EACH = 4
"""Verbs that read one journal: the first derives what is kept, and the others find it, or find none."""
MOST_S = 30
CODES = (0, 1, 2, 3, 4, 5, 6)
STRANGE: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 10**30, 1e300, -1e300, 5e-324, None, True, "", "x" * 70_000, "\x1b[2J",
    "\u202e", "=cmd()", "<script>", "constructor", "__proto__", [], [[]], {}, {"a": {}}, [0] * 50, "\ud800", "NaN",
)  # fmt: skip


def storm(seed: int, count: int) -> Tally:
    tally, chance = Tally("crafted journals"), random.Random(seed)
    whole = (RECORDED / NAME).read_bytes()
    crafts = [_cut, _flip, _drop, _double, _swap, _noise, _value, _value, _value, _key, _deep]
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as scratch, one_command():
        other = Path(scratch, "other")
        shutil.copytree(RECORDED, other)
        for number in range(count):
            craft = crafts[number % len(crafts)]
            with tempfile.TemporaryDirectory(dir=scratch) as name:
                folder = Path(name) / "run"
                shutil.copytree(RECORDED, folder)
                (folder / NAME).write_bytes(craft(whole, chance))
                verbs = [[word.format(out=name, other=other) for word in verb] for verb in chance.sample(VERBS, EACH)]
                wrong = [(verb, _wrong([verb[0], str(folder), *verb[1:]])) for verb in verbs]
            complaint = next((f"{' '.join(verb)}: {complaint}" for verb, complaint in wrong if complaint), None)
            tally.one(f"number {number}, {craft.__name__}", complaint)
    return tally


def _wrong(words: list[str]) -> str | None:
    out, said = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            code = within(MOST_S, lambda: main(words))
    except Hung:
        return "it hung"
    except BaseException as error:  # noqa: BLE001  whatever it is, a person would see a traceback
        return f"a traceback: {type(error).__name__}: {error}"
    if code not in CODES:
        return f"code {code}"
    text = said.getvalue()
    return "a control character reached the terminal" if "\x1b" in text else None


# ---- crafts ---------------------------------------------------------------------------------------------------------


def _cut(whole: bytes, chance: random.Random) -> bytes:
    return whole[: chance.randrange(len(whole))]


def _flip(whole: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(whole))
    return whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]


def _lines(whole: bytes) -> list[bytes]:
    return whole.splitlines(keepends=True)


def _drop(whole: bytes, chance: random.Random) -> bytes:
    lines = _lines(whole)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def _double(whole: bytes, chance: random.Random) -> bytes:
    lines = _lines(whole)
    place = chance.randrange(len(lines))
    return b"".join([*lines[:place], lines[place], *lines[place:]])


def _swap(whole: bytes, chance: random.Random) -> bytes:
    lines = _lines(whole)
    one, other = chance.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _noise(whole: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(whole))
    return whole[:place] + chance.randbytes(chance.choice((1, 100, 100_000))) + whole[place:]


def _value(whole: bytes, chance: random.Random) -> bytes:
    """One value of one record, whatever it was."""
    return _sealed_anew(whole, chance, lambda record: _put(record, chance))


def _key(whole: bytes, chance: random.Random) -> bytes:
    def lose(record: dict[str, Any]) -> None:
        keys = [key for key in record if key not in ("k", "n", "c")]
        if keys:
            record.pop(chance.choice(keys))

    return _sealed_anew(whole, chance, lose)


def _deep(whole: bytes, chance: random.Random) -> bytes:
    text = b'{"k":"visit","parameters":' + b"[" * 5000 + b"]" * 5000 + b',"n":0'
    lines = _lines(whole)
    place = chance.randrange(len(lines))
    return b"".join([*lines[:place], text + b',"c":"%08x"}\n' % zlib.crc32(text), *lines[place:]])


def _put(node: Any, chance: random.Random) -> None:
    """Goes down at random, and puts something strange there."""
    while True:
        keys = [key for key in node if key not in ("k", "n", "c")] if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and chance.random() < 0.7:
            node = node[key]
            continue
        node[key] = chance.choice(STRANGE)
        return


def _sealed_anew(whole: bytes, chance: random.Random, change: Callable[[dict[str, Any]], None]) -> bytes:
    lines = _lines(whole)
    place = chance.randrange(len(lines))
    record = json.loads(lines[place])
    number = record.pop("n")
    record.pop("c")
    change(record)
    text = json.dumps({**record, "n": number}, separators=(",", ":")).encode()[:-1]
    lines[place] = text + b',"c":"%08x"}\n' % zlib.crc32(text)
    return b"".join(lines)
