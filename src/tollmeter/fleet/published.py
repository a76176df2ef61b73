# SPDX-License-Identifier: Apache-2.0
"""A run as a file for publication: its measurements, without names of the machine's owner.

Fields are copied by name; a field that is not listed here is left out. In copied texts, words that name the host or a
user, serial numbers, paths, addresses and UUIDs are replaced."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tollmeter.files import read_regular, write_whole
from tollmeter.model import Failure, Index, Machine, Record, Row, RunInfo, Toll
from tollmeter.model.topology import KIND
from tollmeter.store.document import complaints

Scrub = Callable[[str], str]
_FORMAT = 2
REMOVED = "(removed)"
_MOST_BYTES = 32 << 20
REMOVED_PARTS = (
    "the host's name, users' names and home folders, wherever a text has them",
    "paths, IP and MAC addresses, e-mail addresses, UUIDs and serial numbers, wherever a text has them",
    "the run's folder, name, seed and time of day, and what else ran on the machine",
    "samples and visits, builds and their flags, findings, inferences, and the study's verdicts",
    "rows of commands, of workloads and of probes that Tollmeter does not ship",
    "reasons and notes, and facts of the system other than those that are kept",
)
KEPT_PARTS = (
    "CPU, kernel, hypervisor, memory size, caches, core clock and the numbering of CPUs",
    "facts: CPU family, model, stepping and microcode, governor, boost, SMT, pages, NUMA, mitigations",
    "the suite, the day, the duration, the verdict and the version of Tollmeter",
    "rows and tolls with their intervals, the memory hierarchy, core-to-core latencies and the load curve",
)
_FACTS = re.compile(
    r"address_space_randomization|avx\w*|boost|clocksource|cpu_(family|model_number|stepping)|"
    r"frequency_(driver|max_khz)|governor|microcode|no_turbo|numa_(nodes|balancing)|smt|split_lock_mitigation|transparent_hugepage|uarch|vulnerability_\w+"
)
_PATTERNS = re.compile(
    r"(?<![\w.])~?(/[\w.+@%-]+)+/?|(/[\w.+@%-]+){2,}/?|\b[A-Za-z]:\\\S+|\\\\\S+"  # paths
    r"|\b[\w.+-]+@[\w-]+(\.[\w-]+)*"
    r"|(?<![0-9a-fA-F])[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}(?![0-9a-fA-F])"  # UUIDs, machine-ids
    r"|\b([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\b|\b([0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}\b"  # MAC addresses
    r"|(?<![\w:])(?=[0-9a-fA-F:]*::|([0-9a-fA-F]{1,4}:){7})[0-9a-fA-F:]{4,}(?![\w:])"  # IPv6
    r"|\b\d{1,3}(\.\d{1,3}){3}\b"
)
_SECRET_FACTS = re.compile(r"(^|_)(serial|uuid|asset|host|hostname|machine_id|mac|user|username|address|name)(_|$)")
_CPUS = re.compile(r"[0-9,/-]*")
_HOMES = re.compile(r"/(?:home|Users|export/home)/([^/\s\"']+)")
_NAME = re.compile(r"[A-Za-z0-9_.,:+ -]{0,64}")
_CHECKED = frozenset({"probe", "metric", "abi", "target", "parameters"})
"""Fields of a row whose texts were checked before the row was included."""
_CLOSED = frozenset({"clock", "unit", "better", "state", "kind", "verdict"})
"""Fields whose values are from a closed set."""
_COMMON = frozenset({"root", "localhost", "local", "user", "none", "unknown"})
"""Names that identify neither a person nor a machine."""


Curve = tuple[tuple[float, float], ...]


class PublishedPair(Record, frozen=True):
    """The round-trip time of a line between two CPUs, in ns."""

    first: int
    second: int
    ns: float


class Loaded(Record, frozen=True):
    """The latency of one dependent load with concurrent traffic."""

    mix: str
    bytes_per_second: float
    ns: float


class PublishedRun(Record, frozen=True):
    """A redacted run. removed, kept: what was removed and kept, in words, first in the file. id: hash of the content.
    latency: sizes in bytes, each with the time of a load in ns."""

    format: int
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    id: str
    index: Index
    pairs: tuple[PublishedPair, ...] = ()
    load: tuple[Loaded, ...] = ()
    latency: Curve = ()


def redacted(
    index: Index, pairs: tuple[PublishedPair, ...], load: tuple[Loaded, ...], latency: Curve, known: Container[str]
) -> PublishedRun:
    """Returns a redacted run. known: names of probes that are not private."""
    scrub = _scrubber(_secrets(index))
    rows_of_targets = [row for row in index.rows if not row.target.startswith(KIND)]
    rows = [
        msgspec.structs.replace(row, target=_target(row.target), reason=None if row.status == "ok" else REMOVED)
        for row in rows_of_targets if row.probe in known and _is_plain(row, scrub)
    ]  # fmt: skip
    tolls = [
        msgspec.structs.replace(
            toll, target=_target(toll.target), note="", reason=REMOVED if toll.value is None else None
        )
        for toll in index.tolls
        if toll.probe in known and _is_plain(toll, scrub)
    ]
    levels = [
        msgspec.structs.replace(level, read_missing="", parallelism_missing="", not_apart_why="")
        for level in index.hierarchy
    ]
    index_kept = Index(
        format=index.format, run=_run(index.run), machine=_scrubbed_machine(index.machine, scrub), rows=tuple(rows),
        hierarchy=tuple(levels), tolls=tuple(tolls),
    )  # fmt: skip
    clean = msgspec.convert(_scrubbed(msgspec.to_builtins(index_kept), scrub), Index)
    load = tuple(msgspec.structs.replace(part, mix=scrub(part.mix)) for part in load)
    content = (clean, pairs, load, latency)
    return PublishedRun(_FORMAT, REMOVED_PARTS, KEPT_PARTS, _identity(*content), *content)


def _identity(index: Index, pairs: tuple[PublishedPair, ...], load: tuple[Loaded, ...], latency: Curve) -> str:
    """Returns the id of a published file. A file without a curve keeps the id of the older format."""
    content = (index, pairs, load, latency) if latency else (index, pairs, load)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:12]


def write_published(published: PublishedRun, path: Path) -> None:
    """Writes a published run. Raises Failure (5) if it cannot be written."""
    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(published), indent=1) + b"\n")
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}", 5) from error


def read_published(path: Path) -> PublishedRun:
    """Returns the run in a file. Raises Failure (5) if `toll publish` did not write it, or if it contradicts itself."""
    try:
        published_run = msgspec.json.decode(read_regular(path, _MOST_BYTES), type=PublishedRun)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", 5) from error
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Failure(f"{path} is not a file of `toll publish`: {error}", 5) from None
    if published_run.format != _FORMAT:
        other = f"{path} has format {published_run.format} of `toll publish`, and this version reads {_FORMAT}"
        raise Failure(f"{other}: publish the run again", 5)
    wrong = next(complaints(published_run.index), "")
    content = (published_run.index, published_run.pairs, published_run.load, published_run.latency)
    if wrong or published_run.id != _identity(*content):
        raise Failure(f"{path} is not a file of `toll publish`: {wrong or 'its id is not that of its content'}", 5)
    return published_run


# ---- what is copied -------------------------------------------------------------------------------------------------


def _run(run: RunInfo) -> RunInfo:
    return RunInfo(
        id="", suite=run.suite, started=run.started[:10], seconds=run.seconds, seed=0, status=run.status,
        tollmeter=run.tollmeter, folder="", precision=run.precision, points=run.points, converged=run.converged,
        limited=run.limited, timed_share=run.timed_share, contended_share=run.contended_share, verdict=run.verdict,
        unseen_share=run.unseen_share, stolen_share=run.stolen_share,
    )  # fmt: skip


def _scrubbed_machine(machine: Machine, scrub: Scrub) -> Machine:
    """Returns the machine without its host name and without facts that may identify it."""
    facts = {name: value for name, value in machine.facts.items() if _FACTS.fullmatch(name) and scrub(name) == name}
    topology, sets = machine.topology, list[str]()
    if topology:
        sets = [topology.online, topology.offline, topology.isolated, topology.nohz_full, topology.allowed_nodes]
        for several in (topology.packages, topology.dies, topology.last_caches, topology.clusters, topology.cores):
            sets += several
        sets += [kind.cpus for kind in topology.kinds] + [node.cpus for node in topology.nodes]
    # A journal is untrusted: text in place of a set of CPUs may contain a name.
    is_plain = all(map(_CPUS.fullmatch, sets))
    return msgspec.structs.replace(machine, host="", facts=facts, topology=topology if is_plain else None)


def _target(target: str) -> str:
    """Returns the target's kind: its text before the colon, so that the name of a host is not published."""
    return target.partition(":")[0]


def _is_plain(record: Row | Toll, scrub: Scrub) -> bool:
    """Returns whether a row's names contain no secret. A renamed row would be another row."""
    words = [
        record.metric,
        record.abi,
        _target(record.target),
        *record.parameters,
        *map(str, record.parameters.values()),
    ]
    return all(_NAME.fullmatch(word) and scrub(word) == word for word in words)


# ---- what is replaced -----------------------------------------------------------------------------------------------


def _secrets(index: Index) -> set[str]:
    """Returns the words that name the host, a user or a part of the machine."""
    texts = list(_texts(msgspec.to_builtins(index)))
    labels = index.machine.host.split(".")
    domains = [".".join(labels[first:]) for first in range(len(labels) - 1)]
    secrets = {index.machine.host, labels[0], *domains, *_HOMES.findall("\n".join(texts))}
    secrets |= {value for name, value in index.machine.facts.items() if _SECRET_FACTS.search(name)}
    secrets |= {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "HOSTNAME")}
    secrets |= {row.target.partition(":")[2] for row in index.rows if row.target.startswith("ssh:")}
    with suppress(OSError, KeyError):
        secrets.add(getpass.getuser())
    return {word.strip() for word in secrets if len(word.strip()) > 1 and word.strip().lower() not in _COMMON}


def _scrubber(secrets: set[str]) -> Scrub:
    """Returns a function that removes secrets from a text."""
    words = "|".join(map(re.escape, sorted(secrets, key=len, reverse=True)))
    named = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE) if words else None

    def scrub(text: str) -> str:
        text = _PATTERNS.sub(REMOVED, text)
        return named.sub(REMOVED, text) if named else text

    return scrub


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for name, value in node.items():
            yield str(name)
            yield from _texts(value)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _texts(item)


def _scrubbed(node: Any, scrub: Scrub) -> Any:
    if isinstance(node, str):
        return scrub(node)
    if isinstance(node, dict):
        return {name: value if name in _CHECKED | _CLOSED else _scrubbed(value, scrub) for name, value in node.items()}
    return [_scrubbed(item, scrub) for item in node] if isinstance(node, list | tuple) else node
