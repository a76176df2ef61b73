# SPDX-License-Identifier: Apache-2.0
"""`toll run --target ssh:HOST` as a person types it, with a configuration that names host, port and key.

The server is one of our own on the loopback. OpenSSH asks the system's list of users where ~/.ssh is, and not HOME, so
that the configuration is named by TOLL_SSH_CONFIG, as a person may."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support import target_stands
from support.waiting import LONG_S, in_time
from tollmeter.toolchain.abis import read_abis
from tollmeter.toolchain.build import find_compiler

PROBE = "kernel.loop"

MEASURED = (0, 1)
"""A loud neighbour may leave a run of seconds too short to answer, which is 1."""
SOON = ("--budget", "20s", "--precision", "20%")
"""It ends after a few visits, and has time for them beside loud neighbours too."""


class Person(NamedTuple):
    """folder: where the server and its keys are. environment: what the person has set."""

    folder: Path
    environment: dict[str, str]

    def toll(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, env=self.environment, timeout=LONG_S
        )

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-I", "-m", "tollmeter", *words]

    def runs(self, *words: str, targets: Sequence[str]) -> subprocess.CompletedProcess[str]:
        given = [word for target in targets for word in ("--target", target)]
        return self.toll("run", *words, *given, "--quiet", "--out", str(self.folder / "run"), "--format", "json")

    def left(self) -> list[str]:
        """What stands in the only folder for what is passing, here and there."""
        return sorted(path.name for path in Path(self.environment["TMPDIR"]).iterdir())


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    target_stands.need("ssh", "ssh-keygen")
    # The folder's name is short, since a socket stands in it.
    with target_stands.sshd(tmp_path) as options, tempfile.TemporaryDirectory() as passing:
        configure(tmp_path, options[options.index("-p") + 1], passing)
        told = {"TOLL_SSH_CONFIG": str(tmp_path / "config"), "TMPDIR": passing, "COLUMNS": "200"}
        yield Person(tmp_path, {**os.environ, **told})


def configure(folder: Path, port: str, passing: str) -> None:
    """What a person's configuration may hold beside the host is in it: none of it may get into the way."""
    (folder / "config").write_text(
        f"Host board\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n  SetEnv TMPDIR={passing}\n"
        "  ControlMaster auto\n  ControlPath ~/.ssh/%C\n  ControlPersist 10m\n  RemoteCommand sleep 100\n"
        "  RequestTTY yes\n  LogLevel DEBUG\n"
    )


def index(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def statuses(done: subprocess.CompletedProcess[str]) -> dict[str, set[str]]:
    """Of the rows of each target. What was measured on a busy machine counts as well."""
    told: dict[str, set[str]] = {}
    for row in index(done)["rows"]:
        told.setdefault(row["target"], set()).add("ok" if row["status"] == "unstable" else row["status"])
    return told


def reasons(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(row["reason"] or "" for row in index(done)["rows"])


# ---- it works -----------------------------------------------------------------------------------------------------


def test_a_host_of_the_persons_configuration_is_measured_left_clean_and_gone_on_with(person: Person) -> None:
    done = person.runs(PROBE, *SOON, targets=["ssh:board"])
    assert (done.returncode in MEASURED, done.stderr) == (True, "")
    assert statuses(done) == {"ssh:board": {"ok"}}
    assert {row["clock"] for row in index(done)["rows"]} == {"hardware"}
    assert not person.left()
    words = ["run", "--resume", str(person.folder / "run"), "--budget", "20s", "--quiet"]
    again = person.toll(*words, "--target", "ssh:board")
    assert again.returncode in MEASURED, again.stderr


def test_several_places_each_keep_their_own_clock(person: Person) -> None:
    target_stands.need("qemu-x86_64")
    places = {"local": "hardware", "ssh:board": "hardware", "qemu-user:x86_64": "instructions"}
    done = person.runs(PROBE, "--abi", "x86_64", *SOON, targets=list(places))
    assert done.returncode in MEASURED, done.stderr
    rows = index(done)["rows"]
    assert {row["target"]: row["clock"] for row in rows} == places
    assert {row["unit"] for row in rows if row["clock"] == "instructions"} == {"instruction"}
    shown = person.toll("show", str(person.folder / "run"), "--format", "md").stdout.partition("## Rows")[0]
    assert shown.count("one iteration of a two-instruction loop") == 1, "two machines in one table"


# ---- it does not --------------------------------------------------------------------------------------------------


def spoil(folder: Path, how: str) -> None:
    known, config = folder / "known", folder / "config"
    if how == "another key":
        known.write_text(f"{known.read_text().split()[0]} {(folder / 'user.pub').read_text()}")
    elif how == "unknown key":
        known.write_text("")
    elif how == "refused login":
        config.write_text(config.read_text().replace(f"{folder}/user", f"{folder}/host"))
    elif how == "nobody listens":
        config.write_text(config.read_text().replace("  Port", f"  Port {target_stands.free_port()}\n  Port"))
    elif how == "no configuration":
        config.unlink()
    elif how == "nonsense":
        config.write_text("Hots board\n")


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ("another key", "not the one that is known"),
        ("unknown key", "not known here"),
        ("refused login", "let this user in"),
        ("nobody listens", "nothing listens"),
        ("no configuration", "No such file"),
        ("nonsense", "bad configuration"),
    ],
)
def test_a_host_that_cannot_be_reached_is_one_sentence(person: Person, how: str, named: str) -> None:
    spoil(person.folder, how)
    alone = person.toll("run", PROBE, "--target", "ssh:board", "--budget", "2s", "--quiet")
    assert (alone.returncode, alone.stdout) == (5, "")
    (sentence,) = alone.stderr.splitlines()
    assert named in sentence and "board" in sentence
    assert not person.left()


def test_the_others_go_on_without_it(person: Person) -> None:
    spoil(person.folder, "nobody listens")
    both = person.runs(PROBE, *SOON, targets=["ssh:board", "local"])
    assert both.returncode == 5
    assert statuses(both) == {"ssh:board": {"infrastructure"}, "local": {"ok"}}
    assert "nothing listens" in reasons(both)
    assert index(both)["machine"]["core_clock_hz"] > 1e8
    assert not person.left()


def test_a_server_that_ends_half_way_spoils_its_own_rows_alone(person: Person) -> None:
    with subprocess.Popen(
        person.command("run", "kernel.enter_*", "--target", "ssh:board,local", *SOON, "--quiet",
                       "--out", str(person.folder / "run"), "--format", "json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=person.environment,
    ) as host:  # fmt: skip
        await_journal(person.folder / "run/journal.jsonl")
        for pid in target_stands.servers(person.folder):
            os.kill(pid, signal.SIGKILL)
        out, err = host.communicate(timeout=LONG_S)
    done = subprocess.CompletedProcess(host.args, host.returncode, out, err)
    assert (host.returncode, "infrastructure" in statuses(done)["ssh:board"]) == (5, True)
    assert "infrastructure" not in statuses(done)["local"]
    assert "board cannot be reached" in reasons(done)
    assert not person.left()


def await_journal(path: Path) -> None:
    """Until some visits have been made."""
    begun = in_time(lambda: path.is_file() and path.read_bytes().count(b'"k":"end"') > 5)
    assert begun, "the run does not begin"


def counts(bill: dict[str, Any]) -> dict[str, int]:
    return {item["name"]: item["count"] for item in bill["items"]}


def bill_by(person: Person, way: str, *command: str) -> dict[str, Any]:
    """The bill of a command on the host. Skips the test where the system does not permit the way, with the reason."""
    done = person.toll(
        "bill", "--target", "ssh:board", "--budget", "1s", "--format", "json", "--way", way, "--", *command
    )
    if done.returncode == 5:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stderr) == (0, "")
    (made,) = json.loads(done.stdout)
    bill: dict[str, Any] = made["bill"]
    return bill


@pytest.mark.parametrize("way", ["notified", "usage"])
def test_a_bill_over_ssh_counts_without_the_kernels_help(person: Person, way: str) -> None:
    bill = bill_by(person, way, "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=3000")
    assert bill["way"] == way and bill["cpu"]["value"] > 0
    assert "write" not in counts(bill) if way == "usage" else 3000 <= counts(bill)["write"] <= 3010
    assert not person.left()


def program_of_32_bit(folder: Path) -> list[str]:
    """Returns the command that starts one, which writes 3000 times; empty where it cannot be compiled."""
    abi = read_abis(target_stands.ROOT / "abis")["ia32"]
    compiler = find_compiler(abi)
    if not isinstance(compiler, str):
        return []
    source = Path(__file__).with_name("crossing.c")
    words = [*compiler.split(), *abi.flags, "-O2", "-static", "-pthread", f"{source}", "-o", f"{folder / 'crossing'}"]
    subprocess.run(words, check=True)
    return [f"{folder / 'crossing'}", "bytes", "3000"]


def test_a_bill_is_of_the_commands_of_a_host(person: Person) -> None:
    """By the process that counts here, in the user's folder there; what is saved is of that target. A program of 32
    bits is copied too and removed, and the bill is calibrated by its entry."""
    kept = person.folder / "kept"
    given = ["bill", "--target", "ssh:board", "--budget", "1s", "--format", "json"]
    briefly = [*given, "--way", "usage", "--"]
    commands = [["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=3000"], program_of_32_bit(person.folder)]
    words = [word for command in commands if command for word in ("--", *command)]
    done = person.toll(*given, "--save", f"{kept}", *words)
    assert done.returncode == 0, done.stderr
    own, *others = (made["bill"] for made in json.loads(done.stdout))
    assert own["way"] == "usage" or 3000 <= counts(own)["write"] <= 3010
    for bill in others if own["way"] == "kernel" else ():
        assert counts(bill)["write (32 bit)"] == 3000 and bill["calibration"]["toll_32_ns"] > 0
    shown = person.toll("show", f"{kept}", "--format", "json")
    assert {row["target"] for row in json.loads(shown.stdout)["rows"]} == {"ssh:board"}
    builtin = person.toll(*briefly, "true")
    assert builtin.returncode == 0, builtin.stderr
    for words, code, part in ((["no-such-command"], 2, "no-such-command"), (["ls", "/none"], 1, "/none")):
        refused = person.toll(*briefly, *words)
        assert refused.returncode == code and part in refused.stderr and refused.stdout == ""
    assert person.left() == []
