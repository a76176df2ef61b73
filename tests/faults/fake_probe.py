# SPDX-License-Identifier: Apache-2.0
"""Stands in for a probe's executable in tests of the host: speaks the protocol, and misbehaves on request.

    fake_probe.py BUILD/ABI/PROBE WORDS...     reads BUILD/ABI/PROBE.json: {"describe": {...}, "behaviour": "..."}

With --visits it reads a visit a line, and makes them all. With --stay it reads a visit a line, and as long as it
behaves well and the seed is the same it waits for another. A line with --ahead=CPU is one to set up only: the
process's number is then in FAKE.preparing, and a stream of no records says that it waits.

It seals its records with its own few lines, so that the host's reader is not tested by the host's writer."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

MACHINE = {
    "k": "machine", "host": os.uname().nodename, "cpu": "Fake CPU",
    "kernel": f"{os.uname().sysname} {os.uname().release}", "hypervisor": None, "cpus": 2,
    "memory_bytes": 1 << 33, "allowed_cpus": sorted(os.sched_getaffinity(0)), "page_bytes": 4096,
    "architecture": "x86_64", "facts": {},
    "caches": [
        {"level": 1, "kind": "data", "size_bytes": 32768, "line_bytes": 64, "ways": 8, "shared_cpus": "0"},
        {"level": 2, "kind": "unified", "size_bytes": 262144, "line_bytes": 64, "ways": 8, "shared_cpus": "0"},
    ],
}  # fmt: skip
CLOCK = {"k": "clock", "source": "monotonic_raw", "kind": "hardware", "resolution_ns": 1, "cost_ns": 20}
CALM = dict.fromkeys(("involuntary", "voluntary", "minor_faults", "major_faults", "steal_ticks"), 0)
CONTROL = {"k": "control", "when": "before", "adds": 400000, "ns": 100000}


def sealed(record: dict[str, Any], number: int) -> bytes:
    body = json.dumps({**record, "n": number}, separators=(",", ":")).encode()[:-1]
    return b'%s,"c":"%08x"}\n' % (body, zlib.crc32(body))


def stream(records: list[dict[str, Any]], **end: Any) -> list[bytes]:
    return [sealed(r, n) for n, r in enumerate([*records, {"k": "end", "records": len(records), **end}])]


def say(*lines: bytes) -> None:
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()


def visit_record(path: Path, words: list[str], describe: dict[str, Any]) -> dict[str, Any]:
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
    given = dict(word.split("=", 1) for word in words if not word.startswith("--"))
    parameters: dict[str, Any] = {}
    for parameter in describe.get("parameters", []):
        text = given[parameter["name"]]
        parameters[parameter["name"]] = text if parameter["kind"] == "choice" else int(text)
    return {
        "k": "visit", "visit": int(options["visit"]), "round": int(options["round"]), "probe": path.name,
        "revision": describe.get("revision", 1), "abi": path.parent.name,
        "target": options["target"], "parameters": parameters,
        "cpus": [int(cpu) for cpu in options["cpus"].split(",")], "seed": int(options["seed"]),
        "samples": int(options["samples"]), "sample_ns": int(options["sample-ns"]), "work": {},
    }  # fmt: skip


OPTIONS = {"visit", "round", "target", "samples", "sample-ns", "seed", "deadline-ms", "iterations",
           "control-iterations", "priority", "cpus", "folder"}  # fmt: skip


def refuse_as_a_probe(words: list[str], visit: dict[str, Any], describe: dict[str, Any]) -> None:
    """Ends the process at a request that a probe of the runtime refuses."""
    choices = {parameter["name"]: parameter["choices"] for parameter in describe["parameters"]}
    names = [word.removeprefix("--").partition("=")[0] for word in words]
    options = {name for name, word in zip(names, words, strict=True) if word.startswith("--")}
    given = visit["parameters"]
    is_known = options == OPTIONS and len(names) == len(options) + len(given) and given.keys() == choices.keys()
    is_counted = visit["samples"] > 0 and visit["sample_ns"] > 0
    if not (is_known and is_counted and all(value in choices[name] for name, value in given.items())):
        sys.exit(f"refused: {words}")


def samples(count: int, cost_ns: int, visit: int = 0) -> list[dict[str, Any]]:
    """As of a real clock no two are equal, by what both batches take longer, so that it is no part of the cost."""
    records = []
    for i in range(count):
        extra_ns = (i + 16 * visit) % 997
        body = [cost_ns * 1000 + extra_ns, cost_ns * 2000 + extra_ns]
        records.append({"k": "sample", "i": i, "iterations": 1000, "body": body, "control": None, "lanes": []})
        records.append({"k": "witness", "i": i, "cpu_before": 0, "cpu_after": 0, "control_hz": 4e9, **CALM})
    return records


stays: dict[str, bool] = {}
"""What a stream's end promises: nothing, unless the process was started to stay."""


def good(visit: dict[str, Any], cost_ns: int = 100) -> list[dict[str, Any]]:
    return [visit, CLOCK, CONTROL, *samples(visit["samples"], cost_ns, visit["visit"]), {**CONTROL, "when": "after"}]


def cut(visit: dict[str, Any]) -> None:
    whole = stream(good(visit))
    say(*whole[:4], whole[4][:20])


def listens() -> None:
    """Tells whoever is about to send a signal that it would be heard: beside FAKE a file FAKE.listens."""
    Path(sys.argv[1] + ".listens").touch()


def hang(visit: dict[str, Any]) -> None:
    say(*stream(good(visit))[:4])
    listens()
    time.sleep(600)


def bad_exit(visit: dict[str, Any]) -> None:
    say(*stream(good(visit)))
    sys.stderr.write("wrote past the arena\n")
    sys.exit(3)


def garbage(visit: dict[str, Any]) -> None:
    say(b"\x00\xfe boot\n", b"\nnoise\n{}\n".join(stream(good(visit))))


def flood(visit: dict[str, Any]) -> None:
    say(b"x" * (10 << 20) + b"\n", *stream(good(visit)))


def endless(_: dict[str, Any]) -> None:
    while True:
        say(b"y" * (1 << 16))


def crash(visit: dict[str, Any]) -> None:
    say(*stream(good(visit))[:5])
    os.kill(os.getpid(), signal.SIGSEGV)


def orphan(visit: dict[str, Any]) -> None:
    if os.fork() == 0:
        time.sleep(600)
    say(*stream(good(visit)))


def closed_output(visit: dict[str, Any]) -> None:
    say(*stream(good(visit)))
    os.close(1)
    os.close(2)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGABRT)


asked_to_stop: list[bool] = []


def await_stop() -> None:
    """Until somebody asks to stop."""
    signal.signal(signal.SIGINT, lambda *_: asked_to_stop.append(True))
    listens()
    limit = time.monotonic() + 600
    while not asked_to_stop and time.monotonic() < limit:
        time.sleep(0.01)


def interruptible(visit: dict[str, Any]) -> None:
    """One sample, and then the rest only where nobody asks to stop."""
    await_stop()
    say(*stream([visit, CLOCK, CONTROL, *samples(1, 100)], stopped=bool(asked_to_stop)))


def stubborn(visit: dict[str, Any]) -> None:
    """Does not care who asks it to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say(*stream(good(visit))[:4])
    listens()
    time.sleep(600)


def fail(visit: dict[str, Any], record: dict[str, Any]) -> None:
    say(*stream([visit, record]))


def later(instead: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """Goes well once, and then no more."""
    served: list[int] = []

    def behaviour(visit: dict[str, Any]) -> None:
        served.append(visit["visit"])
        if len(served) > 1:
            stays.clear()
            instead(visit)
        else:
            whole(visit)

    return behaviour


def whole(visit: dict[str, Any]) -> None:
    """With the number of the process as a gauge, so that a test can tell one from another."""
    process = {"k": "gauge", "metric": "process", "value": os.getpid()}
    say(*stream([*good(visit), process], **stays))


def unheard(visit: dict[str, Any]) -> None:
    """Takes no sample where somebody asked to stop before, and does not stay."""
    stays.clear()
    taken = [] if asked_to_stop else samples(visit["samples"], 100)
    say(*stream([visit, CLOCK, CONTROL, *taken], stopped=bool(asked_to_stop)))


BEHAVIOURS: dict[str, Callable[[dict[str, Any]], None]] = {
    "good": whole,
    "unprepared": whole,
    "lost": whole,
    "mute": whole,
    "asked": unheard,
    "crash_later": later(crash),
    "hang_later": later(hang),
    "interruptible_later": later(interruptible),
    "cut": cut,
    "hang": hang,
    "bad_exit": bad_exit,
    "deadline": lambda _: sys.exit(124),
    "garbage": garbage,
    "flood": flood,
    "endless": endless,
    "crash": crash,
    "orphan": orphan,
    "silent": lambda _: None,
    "other_visit": lambda visit: say(*stream(good({**visit, "visit": visit["visit"] + 1}))),
    "skip": lambda visit: fail(visit, {"k": "skip", "reason": "no such gate here"}),
    "wrong": lambda visit: fail(visit, {"k": "fail", "status": "wrong_answer", "reason": "the sum is off by one"}),
    "closed_output": closed_output,
    "interruptible": interruptible,
    "stubborn": stubborn,
}

STAYING = ("good", "asked")


def main() -> None:
    path, words = Path(sys.argv[1]), sys.argv[2:]
    told = json.loads(path.with_name(path.name + ".json").read_text())
    if words == ["--describe"]:
        build = {"k": "build", "probe": path.name, "abi": path.parent.name, "compiler": "fake", "flags": "-O2"}
        say(*stream([{"k": "probe", "protocol": 1, "probe": path.name, **told["describe"]}, build]))
    elif words == ["--machine"]:
        say(*stream([MACHINE, CLOCK, CONTROL]))
    elif words == ["--stay"]:
        stay(path, told)
    elif words == ["--visits"]:
        for line in sys.stdin:
            visit = visit_record(path, line.split(), told["describe"])
            refuse_as_a_probe(line.split(), visit, told["describe"])
            say(*stream(good(visit)))
    else:
        BEHAVIOURS[told["behaviour"]](visit_record(path, words, told["describe"]))


def prepare_ahead(behaviour: str) -> None:
    """An unprepared one says that it could not, a lost one nothing, and a mute one can say nothing any more."""
    Path(sys.argv[1] + ".preparing").write_text(f"{os.getpid()}\n")
    if behaviour == "asked":
        await_stop()
    elif behaviour == "lost":
        os.kill(os.getpid(), signal.SIGKILL)
    elif behaviour == "mute":
        os.closerange(1, 3)
        sys.exit()
    say(*stream([], **stays))


def stay(path: Path, told: dict[str, Any]) -> None:
    """As a probe does: another seed, the end of its input and whatever goes wrong end it."""
    seed = None
    if told["behaviour"] in STAYING or told["behaviour"].endswith("_later"):
        stays["stays"] = True
    for line in sys.stdin:
        visit = visit_record(path, line.split(), told["describe"])
        if seed not in (None, visit["seed"]):
            return
        seed = visit["seed"]
        if "--ahead=" in line:
            prepare_ahead(told["behaviour"])
        else:
            BEHAVIOURS[told["behaviour"]](visit)
        if not stays:
            return


main()
