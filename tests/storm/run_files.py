# SPDX-License-Identifier: Apache-2.0
"""Runs whose run.toml names places, commands and files: what is only read starts no process and connects to nothing,
since a run's folder is data, and may come from anybody."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import msgspec

from storm import readers
from storm.ended import Hung, Tally, one_command, within
from support.fake_probes import tree, worked_in
from tollmeter.cli.main import main
from tollmeter.library import workloads
from tollmeter.model import Select, Suite, Workload
from tollmeter.store.request import NAME, Request, read_request, write_request

STARTS = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "socket.connect"}
VERBS = (
    ["show", "mine"], ["show", "mine", "--format", "json"], ["show", "mine", "--raw"], ["report", "mine"],
    ["export", "mine", "--out", "rows.csv"], ["list", "runs"], ["run", "--dry-run", "--against", "mine"],
    ["run", "--dry-run", "--against", "./mine"], ["run", "--resume", "mine", "--dry-run"],
)  # fmt: skip
PLACES = ("ssh:host", "local", "qemu-user:arm", "guest:x32", "serial:/dev/null", "local+pty", "", "x")
CODES = (0, 1, 2, 4, 5, 6)
MOST_S = 60

started: list[str] = []
sys.addaudithook(lambda event, _: started.append(event) if event in STARTS else None)


def storm(seed: int, count: int) -> Tally:
    tally, chance = Tally("run files"), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as name, checkout(Path(name)) as root, one_command():
        whole, request = (root / "mine" / NAME).read_bytes(), read_request(root / "mine")
        for number in range(count):
            write_request(root / "mine", changed(request, chance, root / "ran"))
            if number % 3 == 0:
                kept = [(root / "mine" / NAME).read_bytes(), whole]
                (root / "mine" / NAME).write_bytes(readers.changed(kept, chance))
            verbs = chance.choice(VERBS), VERBS[-1]
            wrong = next(filter(None, map(_wrong, verbs)), None)
            tally.one(f"number {number}", wrong or ("a command ran" if (root / "ran").exists() else None))
    return tally


@contextlib.contextmanager
def checkout(folder: Path) -> Iterator[Path]:
    """A checkout of fakes with one run, `mine`; while entered it is the one that verbs work in."""
    root = tree(folder / "checkout", loop="good")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    with worked_in(root), mock.patch.dict(os.environ, environment), mock.patch.object(workloads, "ROOT", root):
        words = ["run", "--out", "mine", "--quiet", "--beside", "--budget", "60s"]
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(words) == 0
        yield root
    started.clear()


def changed(request: Request, chance: random.Random, evil: Path) -> Request:
    """Names places, commands and files in up to three of the fields."""
    runs = Workload(name="evil", what="w", start=("sh", "-c", f"id >{evil}"), verify="x", build=(("touch", f"{evil}"),))
    suite = request.suite
    fields = {
        "targets": tuple(chance.choices(PLACES, k=chance.randrange(3))),
        "peer": chance.choice(("host", "-oProxyCommand=id", "")),
        "folder": chance.choice((f"{evil.parent}", "/dev", "")),
        "abis": tuple(chance.choices(("x86_64", "ia32", "arm-hard", "../x", "native"), k=chance.randrange(3))),
        "against": (chance.choice(("ia32", "kernel.loop", "placement=one_cpu")),),
        "words": (f"{evil.parent}/evil.toml",),
        "cpus": (chance.randrange(4096),),
        "suite": chance.choice((
            msgspec.structs.replace(suite, workload=(runs,)),
            msgspec.structs.replace(suite, select=(Select(probe="*", target=("ssh:*",), abi=("arm-hard", "native")),)),
            Suite(name="s", question="?", select=(Select(probe="workload.evil"),), profile=suite.select),
        )),
    }  # fmt: skip
    chosen = chance.sample(list(fields), chance.randrange(1, 4))
    return msgspec.structs.replace(request, **{name: fields[name] for name in chosen})


def _wrong(words: list[str]) -> str | None:
    started.clear()
    said = io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(said):
        try:
            code = within(MOST_S, lambda: main(list(words)))
        except Hung:
            return f"{' '.join(words)}: it hung"
    if started:
        return f"{' '.join(words)}: it started {started}"
    return None if code in CODES else f"{' '.join(words)}: code {code}: {said.getvalue()[-200:]}"
