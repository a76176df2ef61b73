# SPDX-License-Identifier: Apache-2.0
"""Every command that README.md and docs/ tell a person to type is tried here, so that none of them is an error.

What measures is planned (--dry-run), with its ABIs taken as built: names of probes, suites, parameters, ABIs and
targets are looked up as they are for a run. What reads is run, on a recorded run. The few that ELSEWHERE names are run
by the test that stands beside them. A new command is tried without an edit here."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from support.fake_catalog import MACHINE
from tollmeter import catalog
from tollmeter.catalog import Catalog, read_suite
from tollmeter.cli.app import app
from tollmeter.cli.main import main
from tollmeter.library import places, prepare, profiling, resume, selftest
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import ClockReading
from tollmeter.targets.ways import clock_of
from tollmeter.toolchain.abis import known_abis

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`((?:\./)?toll [^`]+|make [^`]+)`|^    ((?:\./toll|toll|make) [^\n]*)$", re.MULTILINE)
ENDS = re.compile(r"  +(?=#|[a-z])(?!-).*$")
"""What stands behind a command, two blanks and more away."""

ELSEWHERE = {
    "toll bill": ("tests/faults/test_bill.py", '"bill"'),
    "toll time": ("tests/unit/test_time.py", "sleep 0.002"),
    "toll --set-up": ("tests/faults/test_launcher.py", "--set-up"),
    "toll run kernel.getrandom": ("tests/unit/test_broken_probes.py", "kernel.getrandom"),
    "toll new probe": ("tests/unit/test_broken_probes.py", "kernel.getrandom"),
    "toll list abis": ("tests/unit/test_abis.py", "survey"),
    "toll report LAST --charts DIR": ("tests/unit/test_report_charts.py", "svg"),
    "toll report A B": ("tests/faults/test_run.py", '"report", "a", "b"'),
    "toll compare": ("tests/unit/test_compare_verb.py", '"compare", "r01", "r21"'),
    "toll compare --machines": ("tests/unit/test_compare_verb.py", '"--machines"'),
    "toll compare LAST~1": ("tests/unit/test_compare_verb.py", '"LAST~1"'),
    "toll bundle": ("tests/faults/test_bundle.py", '"bundle", *PROBES'),
    "toll bundle default --abi": ("tests/faults/test_bundle.py", '"--abi", abi'),
    "toll import": ("tests/faults/test_bundle.py", '["import"'),
    "toll export LAST --format parquet --what samples": ("tests/unit/test_export.py", '"parquet"'),
    "toll export RUN --format lmbench": ("tests/unit/test_lmbench.py", "result_text"),
    "toll export --dataset": ("tests/unit/test_published.py", '"--dataset", "results", "r01"'),
    "toll show RUN --format lmbench": ("tests/unit/test_lmbench.py", "read_result"),
    "toll run bench/scheduler.toml": ("tests/unit/test_allocation.py", "bench/scheduler.toml"),
    "toll selftest": ("src/tollmeter/cli/verbs.py", "selftest"),
    "toll --install-completion": ("src/tollmeter/cli/completing.py", "complet"),
    "toll run --resume": ("tests/faults/test_run.py", "--resume"),
    "toll run kernel.loop --abi x86_64-v3": ("tests/unit/test_abis.py", "add-an-abi.md"),
    "toll run float.dot --against x86_64-v3": ("tests/unit/test_abis.py", "add-an-abi.md"),
    "toll run bench.planted_4": ("bench/tomorrow.py", "planted_again"),
    "toll show RUN --attribute": ("tests/unit/test_attribution.py", "attribut"),
    "toll show LAST --attribute": ("tests/unit/test_attribution.py", "attribut"),
    "toll serve": ("tests/faults/test_serving.py", "serve"),
    "toll show --follow": ("tests/faults/test_serving.py", "follow"),
    "toll run WORDS --against OTHER": ("tests/unit/test_against.py", "against"),
    "toll run kernel.disk": ("tests/probes/test_kernel.py", "folder"),
    "toll history kernel.enter_syscall": ("tests/unit/test_run_history.py", '"history", "any.probe"'),
    "toll history 'memory.*'": ("tests/unit/test_run_history.py", '"any.*", "size=16KiB"'),
    "toll history --folders": ("tests/unit/test_run_history.py", '"--folders"'),
    "toll casts": ("tests/unit/test_casts.py", "casts"),
    "toll gate": ("tests/unit/test_gate.py", '"gate"'),
    "toll gate --base": ("tests/unit/test_gate.py", '"--base"'),
    "toll gate --strict": ("tests/unit/test_gate.py", '"--strict"'),
    "toll gate --": ("tests/unit/test_gated_commands.py", "two_commands"),
    "toll gate --limit": ("tests/unit/test_gated_commands.py", "two_commands"),
    "toll doctor": ("tests/unit/test_doctor.py", '"doctor"'),
    "toll health": ("tests/unit/test_health.py", '"health"'),
    "toll sweep": ("tests/faults/test_sweep.py", "conducted(sweep_of"),
    "toll sweep --restore": ("tests/faults/test_sweep.py", '"sweep", "--restore"'),
    "toll sweep --reboots": ("tests/faults/test_sweep.py", "over_restarts(sweep_of"),
    "toll sweep --restore --reboots": ("tests/faults/test_sweep.py", '"--restore", "--reboots"'),
    "toll publish": ("tests/unit/test_published.py", '"publish", "r01"'),
    "toll gallery": ("tests/unit/test_published.py", '"gallery", "file.json"'),
    "toll fleet submit": ("tests/fleet/test_slurm.py", '"fleet", "submit"'),
    "toll fleet submit default --hosts": ("tests/faults/test_fleet_hosts.py", '"--hosts"'),
    "toll fleet status": ("tests/fleet/test_slurm.py", '"status"'),
    "toll fleet collect": ("tests/fleet/test_slurm.py", '"collect"'),
    "toll fleet collect autumn": ("tests/faults/test_fleet_hosts.py", '"collect"'),
    "toll fleet report": ("tests/unit/test_fleet.py", '"fleet", "report"'),
}
"""By the words that a command begins with, the longest that fit: which file tries it, and by what text."""
MAKES = ("Makefile", "tests/tests.mk", "emulator/emulator.mk")
MAKEFILES = "".join((ROOT / name).read_text(encoding="utf-8") for name in MAKES)
PLACES = {"RUN": "LAST", "NAME": "x86_64", "FILE": "limits.toml"}


def commands() -> Iterator[str]:
    for page in PAGES:
        for found in COMMAND.finditer(page.read_text(encoding="utf-8")):
            told = ENDS.sub("", found[1] or found[2]).strip()
            yield from (part.strip().removeprefix("./") for part in told.split("&&") if "build/" not in part)


X86 = msgspec.structs.replace(MACHINE, architecture="x86_64")
EVERY = sorted(set(commands()))


def built(abis: Sequence[str], targets: Sequence[str], _: ProbeRequest, may_install: bool = True) -> Catalog:
    """The probes of this machine, taken as built for whatever ABI is asked for."""
    del may_install
    known = [*known_abis(ROOT)]
    for abi in abis:
        catalog.check_known("ABI", abi, known)
    for target in targets:
        clock_of(target)
    loaded = _loaded()
    own = [made for (_, abi), made in loaded.executables.items() if abi == loaded.abis[0]]
    named = abis or loaded.abis
    made = {
        (one.probe.probe, abi): msgspec.structs.replace(one, build=msgspec.structs.replace(one.build, abi=abi))
        for abi in named
        for one in own
    }
    return msgspec.structs.replace(loaded, executables=made, abis=tuple(named))


@cache
def _loaded() -> Catalog:
    return catalog.load_catalog(ROOT / "build", "x86_64")


@pytest.fixture
def here(tmp_path: Path, own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with one run, on a machine that exists nowhere."""
    shutil.copytree(ROOT / "tests/recordings/format-2", own_runs / "recorded")
    (own_runs / "LAST").symlink_to("recorded")
    (tmp_path / "limits.toml").write_text('[[rows]]\nrow = "kernel.timer late_worst *"\nat_most = "150 us"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(places, "made_ready", built)
    for module in (prepare, profiling, resume, selftest):
        monkeypatch.setattr(module, "machine_of", lambda *_: (X86, ClockReading()))
    return tmp_path


def test_the_documents_contain_the_commands() -> None:
    assert {"toll run", "toll show LAST --raw memory.latency", "toll run kernel.enter_syscall", "make test"} <= set(
        EVERY
    )
    used = {elsewhere(command) for command in EVERY}
    assert set(ELSEWHERE) <= used, "what no document tells any more need not be tried"


def elsewhere(command: str) -> str:
    return max((key for key in ELSEWHERE if f"{command} ".startswith(f"{key} ")), key=len, default="")


def unknown_options(words: list[str]) -> list[str]:
    """Of those before `--`, what the verb does not have."""
    verb: Any = get_command(app)
    while words and words[0] in getattr(verb, "commands", {}):
        verb, words = verb.commands[words[0]], words[1:]
    known = {option for parameter in verb.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = words[: words.index("--")] if "--" in words else words
    return [word for word in given if word.startswith("-") and word.partition("=")[0] not in known]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", EVERY)
def test_a_documented_command_does_what_the_document_says(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(command)
    if key := elsewhere(command):
        name, named = ELSEWHERE[key]
        assert named in (ROOT / name).read_text(encoding="utf-8"), f"{name} does not try {key} any more"
        assert key == "toll --set-up" or not unknown_options(words)
        return
    if program == "make":
        assert all(re.search(rf"^{goal}:", MAKEFILES, re.MULTILINE) for goal in words)
        return
    verb, *rest = [PLACES.get(word, word) for word in words]
    rest = ["LAST" if word == "DIR" else word for word in rest]
    if words[:2] == ["run", "NAME"]:
        rest = ["default", *rest[1:]]
    status = main([verb, *rest, *["--dry-run"] * (verb == "run" and "--dry-run" not in rest)])
    said = capsys.readouterr()
    assert status == 0, said.err
    assert said.out or verb == "report"
    if verb == "run":
        points = re.search(r"\b(\d+) points? of \d+ probe", said.out)
        assert points and int(points[1]) > 0


def test_the_suite_of_the_document_is_one_that_plans(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs/suites.md").read_text(encoding="utf-8")
    first, study = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[:2]
    keys, table, claims = study.partition("[[")
    (here / "mine.toml").write_text(keys + first + table + claims, encoding="utf-8")
    assert read_suite(here / "mine.toml").published
    status = main(["run", str(here / "mine.toml"), "--dry-run"])
    said = capsys.readouterr()
    assert status == 0, said.err
    assert "datamodel." in said.out
