# SPDX-License-Identifier: Apache-2.0
"""`toll fleet submit --hosts FILE`: a bundle on every host, over OpenSSH, in a folder like that of a Slurm submission.
A journal arrives as it grows, so that a lost connection leaves a part."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

from tollmeter import commands
from tollmeter.files import plain
from tollmeter.library.bundling import Asked, planned_s
from tollmeter.library.fleet_jobs import JOURNALS, MARGIN_S, PAYLOAD, Submission, keep, new_name, prepare
from tollmeter.model import Failure
from tollmeter.notices import notify
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.targets.ssh import LOST, Connection, check_host
from tollmeter.version import VERSION

_TICK_S = 0.2
_ATTEMPT = "1.0"

# The bundle's own standard input is not the payload. Its journal is standard output, its answer is left out.
_THERE = """folder=$(mktemp -d) || exit 5
trap 'rm -rf "$folder"' EXIT; trap 'exit 130' HUP INT TERM
cat >"$folder/bundle.sh" || exit 5
sh "$folder/bundle.sh" --out - </dev/null"""


def hosts_of(file: Path) -> tuple[str, ...]:
    """One in each line, as ssh takes it; `#` begins a comment. Raises Failure (2)."""
    try:
        lines = [line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {error}") from error
    hosts = tuple(dict.fromkeys(filter(None, lines)))
    for host in hosts:
        check_host(host)
    if not hosts:
        raise Failure(f"{file} names no host")
    if len(set(map(plain, hosts))) < len(hosts):
        raise Failure(f"{file}: two hosts would have one folder: {', '.join(sorted(map(plain, hosts)))}")
    return hosts


def measure_hosts(asked: Asked, folder: Path, hosts: Sequence[str], at_once: int) -> Submission:
    """Ends when every host has ended. Raises Failure: 2 where the folder is not empty, 5 where nothing can be built."""
    submission = Submission(new_name(), asked.words, VERSION, time.time(), tuple(map(plain, hosts)))
    prepare(asked, folder, submission)
    limit_s, stop = planned_s(asked) + MARGIN_S, Event()
    with ThreadPoolExecutor(at_once) as pool:
        running = {pool.submit(_measure, host, folder, limit_s, stop): host for host in hosts}
        try:
            waiting = set(running)
            while waiting:
                ended, waiting = wait(waiting, timeout=_TICK_S, return_when=FIRST_EXCEPTION)
                for future in ended:
                    if reason := future.result():
                        submission.refused[plain(running[future])] = reason
                        notify(f"{running[future]}: {reason}")
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
            keep(folder, submission)
    return submission


def _measure(host: str, folder: Path, limit_s: float, stop: Event) -> str:
    """Returns why it has no whole journal, or an empty text."""
    attempt = folder / JOURNALS / plain(host) / _ATTEMPT
    attempt.mkdir(parents=True)
    try:
        connection = Connection(host)
        try:
            connection.open()
            return _streamed(connection, folder / PAYLOAD, attempt, limit_s, stop)
        finally:
            connection.close()
    except Failure as failure:
        return failure.sentence
    except OSError as error:
        return f"its journal cannot be written here: {error.strerror}"


def _streamed(connection: Connection, payload: Path, attempt: Path, limit_s: float, stop: Event) -> str:
    (attempt / "started").touch()
    with payload.open("rb") as given, (attempt / JOURNAL).open("xb") as journal, (attempt / "log").open("xb") as log:
        deadline = time.monotonic() + limit_s
        with commands.start(
            "typed", connection.command(_THERE), stdin=given, stdout=journal, stderr=log, env=connection.environment,
            start_new_session=True,
        ) as process:  # fmt: skip
            while process.poll() is None and time.monotonic() < deadline and not stop.wait(_TICK_S):
                pass
            is_late = process.poll() is None
            process.kill()
    if is_late:
        return "it was interrupted" if stop.is_set() else f"it did not end within {limit_s:.0f} s"
    if process.returncode == LOST:
        return connection.lost((attempt / "log").read_bytes()).sentence
    return f"its bundle ended with exit code {process.returncode}" if process.returncode else ""
