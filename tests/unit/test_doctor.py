# SPDX-License-Identifier: Apache-2.0
"""`toll doctor`: each planted condition is found and named by its rank, a sound machine has none, the script makes and
takes back what it names, and a run says before it begins what distorts it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.planted_conditions import PLANTED, Plant, sound, surrounded, with_index
from support.recordings import with_index_of
from tollmeter.cli.main import main
from tollmeter.conduct import Watch
from tollmeter.conduct.surroundings import _Spent
from tollmeter.findings import all_findings
from tollmeter.library.doctor import changes, changes_of
from tollmeter.library.known_before import known_conditions, worst_known
from tollmeter.model import RANKS, Finding, Results, Setting
from tollmeter.report import doctor as report
from unit.test_surroundings import ALLOW_ALL, TRACED, told_by

SEEDS = range(20)


def found(results: Results) -> dict[str, Finding]:
    return {finding.name: finding for finding in all_findings(results)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sound_machine_has_no_finding(seed: int) -> None:
    assert not found(sound(seed))


@pytest.mark.parametrize("condition", PLANTED)
def test_a_planted_condition_is_found_and_nothing_else_is(condition: str) -> None:
    planted = PLANTED[condition]
    for seed in (1, 2, 3):
        (one,) = all_findings(planted.plant(sound(seed)))
        assert (one.name, one.rank) == (planted.finding, planted.rank)
        assert one.evidence and one.remedy and one.claim


def test_what_was_only_read_is_not_called_measured() -> None:
    proofs = {name: found(plant(sound(1)))[finding].proof for name, (plant, finding, _) in PLANTED.items()}
    assert proofs["one slow core"] == proofs["deep idle states"] == proofs["huge pages off"] == "measured"
    assert proofs["CPU quota"] == proofs["swap pressure"] == "counted"
    assert proofs["seccomp filter"] == proofs["affinity to one CPU"] == proofs["memory clock"] == "read"


# ---- the verb -------------------------------------------------------------------------------------------------------


def doctor(folder: Path, results: Results, *words: str) -> int:
    """Returns the exit code of the verb for a run with these results and what is found in them."""
    whole = with_index(results, findings=all_findings(results))
    return main(["doctor", "--run", with_index_of(whole, folder / "run"), *words])


def test_the_code_is_the_worst_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for plant, code, words in (
        (lambda results: results, 0, "Fit to be measured"),
        (PLANTED["deep idle states"].plant, 0, "1 condition costs performance"),
        (PLANTED["CPU quota"].plant, 3, "Not fit to be measured"),
        (PLANTED["memory limit"].plant, 3, "Prevents measuring"),
    ):
        assert doctor(tmp_path, plant(sound(4))) == code
        printed = capsys.readouterr()
        assert words in " ".join(printed.out.split())
        assert bool(printed.err) == bool(code)


def test_a_machine_that_could_not_be_judged_is_not_called_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = sound(5)
    lost = replace(results.index.rows[0], status="failed", median=None, reason="it crashed")
    assert doctor(tmp_path, with_index(results, rows=(lost, *results.index.rows[1:]))) == 1
    assert "it crashed" in capsys.readouterr().err
    withheld = replace(results.index.run, withheld_problems=1)
    slow = with_index(results, run=withheld, withheld=("machine.a_cpu_is_slow",))
    assert doctor(tmp_path, slow, "--format", "json") == 1
    assert "a_cpu_is_slow" in json.loads(capsys.readouterr().out)["unjudged"][0]


def test_each_format_has_every_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plants = [PLANTED[name].plant for name in ("CPU quota", "one slow core", "memory limit", "deep idle states")]
    results = sound(6)
    for plant in plants:
        results = plant(results)
    names = set(found(results))
    assert len(names) == len(plants)
    assert doctor(tmp_path, results, "--format", "json") == 3
    told = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in told["findings"]} == names and told["fit"] is False
    ranks = [RANKS.index(one["rank"]) for one in told["findings"]]
    assert ranks == sorted(ranks)
    assert doctor(tmp_path, results, "--format", "prometheus") == 3
    metrics = capsys.readouterr().out
    assert "\ntoll_doctor 0\n" in metrics and '\ntoll_doctor_findings{rank="prevents"} 1\n' in metrics
    assert all(re.fullmatch(r'#.*|\w+(\{(\w+="[^"]*",?)+\})? [-0-9.e+]+', line) for line in metrics.splitlines())
    assert names == set(re.findall(r'toll_doctor_finding\{name="([^"]+)"', metrics))
    assert doctor(tmp_path, results, "--out", str(tmp_path / "text")) == 3
    text = " ".join((tmp_path / "text").read_text().split())
    assert text.index("Prevents measuring") < text.index("Distorts measuring") < text.index("Costs performance")


@pytest.mark.parametrize("words", [["--format", "xml"], ["--script", "--format", "json"], ["--run", "no-such-run"]])
def test_what_cannot_be_meant_is_refused(words: list[str]) -> None:
    assert main(["doctor", *words]) == 2


# ---- its script -----------------------------------------------------------------------------------------------------


def system(root: Path) -> dict[str, Path]:
    files = {"governor": root / "policy0/scaling_governor", "second": root / "policy1/scaling_governor",
             "pages": root / "enabled"}  # fmt: skip
    for path, text in zip(files.values(), ("powersave", "schedutil", "always madvise [never]"), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n")
        (path.parent / "available").write_text("performance powersave schedutil\n")
    return files


def settings(root: Path) -> list[Setting]:
    governor = Setting(path=f"{root}/policy*/scaling_governor", values=("performance",), among="available")
    return [governor, Setting(path=f"{root}/enabled", values=("madvise",))]


def test_a_script_makes_the_changes_and_takes_them_back(tmp_path: Path) -> None:
    files = system(tmp_path)
    results = PLANTED["wrong governor"].plant(sound(7))
    (one,) = all_findings(results)
    asking = replace(one, settings=tuple(settings(tmp_path)), claim="it's\nslow; $(touch broken)")
    changed = changes([asking])
    assert [change.found for change in changed] == ["powersave", "schedutil", "never"]
    script = tmp_path / "mend.sh"
    script.write_bytes(report.script(results, [asking], changed))
    if shellcheck := shutil.which("shellcheck"):
        subprocess.run([shellcheck, script], check=True)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", script, *words], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run().returncode == run("all").returncode == 2
    assert files["governor"].read_text() == "powersave\n"
    assert run("apply").returncode == 0
    assert [path.read_text() for path in files.values()] == ["performance\n", "performance\n", "madvise\n"]
    assert "already" in run("apply").stdout
    files["second"].write_text("ondemand\n")
    undone = run("undo")
    assert undone.returncode == 1 and "ondemand" in undone.stderr
    assert [path.read_text() for path in files.values()] == ["powersave\n", "ondemand\n", "never\n"]
    assert not (tmp_path / "broken").exists()


def test_only_what_differs_and_is_permitted_is_changed(tmp_path: Path) -> None:
    files = system(tmp_path)
    files["governor"].write_text("performance\n")
    (files["second"].parent / "available").write_text("powersave\n")
    assert [change.path for setting in settings(tmp_path) for change in changes_of(setting)] == [str(files["pages"])]
    assert not list(changes_of(Setting(path=f"{tmp_path}/none", values=("1",))))


def test_a_script_without_changes_says_so_and_one_of_another_machine_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = PLANTED["CPU quota"].plant(sound(8))
    assert doctor(tmp_path, results, "--script") == 2
    own = replace(results.index.machine, host=os.uname().nodename)
    capsys.readouterr()
    assert doctor(tmp_path, with_index(results, machine=own), "--script") == 3
    script = tmp_path / "mend.sh"
    script.write_text(capsys.readouterr().out)
    assert subprocess.run(["sh", script], check=True, capture_output=True, text=True).stdout.startswith("nothing")


NEVER = ("randomize_va_space", "mitigations=", "irqbalance", "swappiness")


def test_no_rule_suggests_what_costs_more_than_it_mends() -> None:
    for condition in PLANTED.values():
        for finding in all_findings(condition.plant(sound(9))):
            written = " ".join([finding.remedy, *(setting.path for setting in finding.settings)])
            assert not [word for word in NEVER if word in written]


# ---- before a run ---------------------------------------------------------------------------------------------------

TELL = """
from tollmeter.conduct import Watch
from tollmeter.library.known_before import known_conditions
from tollmeter.model import Machine
machine = Machine(host="h", cpu="c", kernel="k", hypervisor=None, cpus=2, memory_bytes=1 << 34, allowed_cpus=(0, 1))
print(*(one.name for one in known_conditions(Watch([0]).seen(), machine, calls=True)), flush=True)
"""


def test_a_run_tells_the_worst_condition_that_is_known_before_it_begins() -> None:
    def told(*plants: Plant, calls: bool = True) -> str:
        results = sound(10)
        for plant in plants:
            results = plant(results)
        seen = results.index.run.surroundings
        assert seen is not None
        return worst_known(known_conditions(seen, results.index.machine, calls=calls))

    assert told() == told(PLANTED["deep idle states"].plant) == told(PLANTED["wrong governor"].plant) == ""
    quota, seccomp, one_cpu = (PLANTED[name].plant for name in ("CPU quota", "seccomp filter", "affinity to one CPU"))
    assert "0.5 CPUs" in told(quota) and "distorts" in told(quota)
    assert "seccomp" in told(seccomp) and not told(seccomp, calls=False)
    assert "prevents" in told(quota, one_cpu) and "1 more" in told(quota, one_cpu)
    assert "niceness 10" in told(surrounded(nice=10))


def test_a_real_filter_a_real_tracer_and_a_real_niceness_are_told() -> None:
    planted = {"machine.system_calls_are_filtered", "machine.probes_are_traced", "machine.run_is_held_back"}
    found = told_by(ALLOW_ALL, TRACED, "os.nice(7)", TELL).split()
    assert planted <= set(found) <= planted.union(told_by(TELL).split())


SPIN = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nprint(flush=True)\nwhile True: pass"


class NotOurs(Watch):
    """Of a process that started none of those that work."""

    def _spent(self) -> _Spent | None:
        spent = super()._spent()
        return spent and spent._replace(own=0.0)


def test_a_real_neighbour_on_a_measured_cpu_is_found() -> None:
    """It has the CPU for a second, whatever others have."""
    cpu = min(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", SPIN, str(cpu)], stdout=subprocess.PIPE) as neighbour:
        assert neighbour.stdout
        neighbour.stdout.readline()
        watch = NotOurs([cpu])
        time.sleep(1)
        seen = watch.seen()
        neighbour.kill()
    results = sound(11)
    run = replace(results.index.run, surroundings=replace(seen, interrupts={}, paging={}))
    assert "machine.other_programs_work" in found(with_index(results, run=run))
