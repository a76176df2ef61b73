# SPDX-License-Identifier: Apache-2.0
"""`toll` as a person meets it: what is left on disk, what is said in how many lines, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import msgspec
import pytest

from support.fake_probes import awaited, change, toll, tree, worked_in
from support.waiting import LONG_S
from tollmeter.cli.main import main
from tollmeter.model import Outcome, Workload
from tollmeter.store.journal import NAME, Journal, read_journal
from tollmeter.store.request import read_request, write_request

SCHEMA = jsonschema.Draft202012Validator(json.loads((Path(__file__).parents[2] / "docs/show.schema.json").read_text()))

LONG = "9" * 400
ENOUGH = {*range(3, 12)}
"""Visits of a point that is the same each time: three, and one more where a resumed run begins. Where a busy machine
starts the probe slowly, its layout serves up to eight, the first of which may be the third."""


def visits_of(outcomes: Sequence[Outcome]) -> list[int]:
    """Of each point, by probe. No round has visited one twice: a resumed run goes on where it was."""
    assert set(Counter((outcome.point, outcome.round) for outcome in outcomes).values()) == {1}
    several = Counter(outcome.point for outcome in outcomes)
    return [several[point] for point in sorted(several, key=lambda point: point.probe)]


class Done(NamedTuple):
    code: int
    out: str
    said: str


def outside(root: Path, *words: str, **popen: Any) -> Done:
    """In a process of its own, for what concerns the process."""
    process = toll(root, *words, **popen)
    out, said = process.communicate(timeout=LONG_S)
    return Done(process.returncode, out, said)


Toll = Callable[..., Done]


@pytest.fixture
def done(root: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Toll]:
    """`toll WORDS` in the checkout of fakes."""

    def run(*words: str) -> Done:
        code = main(words)
        sys.stdout.flush()
        return Done(code, *capfd.readouterr())

    with worked_in(root):
        yield run


def shown(done: Toll, run: str = "LAST") -> dict[str, Any]:
    told = json.loads(done("show", run, "--format", "json").out)
    SCHEMA.validate(told)
    assert isinstance(told, dict)
    return told


def one_line(told: Done) -> str:
    assert told.said.count("\n") == 1, told.said
    assert "Traceback" not in told.said
    return told.said


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "checkout", enter="good", loop="good")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "mine"


@pytest.fixture
def mine(done: Toll, root: Path, kept: Path) -> Path:
    """The folder of a finished run, which is measured once for all tests that begin with one."""
    if kept.exists():
        shutil.copytree(kept, root / "mine")
    else:
        assert done("run", "--out", "mine", "--quiet").code == 0
        shutil.copytree(root / "mine", kept)
    return root / "mine"


# ---- a run that goes well ---------------------------------------------------------------------------------------


def test_a_run_leaves_its_folder_its_answer_and_its_page(done: Toll, root: Path) -> None:
    told = done("run", "--seed", "4711")
    assert "system call" in told.out
    assert told.code == 0, told.said
    folder = root / "runs/LAST"
    assert {"journal.jsonl", "run.toml", "report.html"} <= {path.name for path in folder.iterdir()}
    assert "entry" in read_request(folder).suite.question
    assert read_journal(folder).session.status == "settled"
    index = shown(done)
    assert index["run"]["seed"] == 4711
    assert [(row["probe"], row["status"], row["median"]) for row in index["rows"]] == [
        ("kernel.enter", "ok", pytest.approx(100, rel=1e-3)),
        ("kernel.loop", "ok", pytest.approx(100, rel=1e-3)),
    ]
    visits = read_journal(folder).outcomes
    assert [row["visits"] for row in index["rows"]] == visits_of(visits)
    assert {*visits_of(visits)} <= ENOUGH


def test_runs_of_one_day_do_not_overwrite_each_other(done: Toll, root: Path) -> None:
    for _ in range(3):
        assert done("run", "kernel.loop", "--quiet").code == 0
    names = [row["run"] for row in json.loads(done("list", "runs", "--format", "json").out)]
    assert len(names) == 3
    assert (root / "runs/LAST").resolve().name == names[-1]
    assert done("show", names[0]).code == 0


def test_every_option_of_run_does_something(done: Toll, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "elsewhere"
    words = ["run", "kernel.loop", "--budget", "9s", "--cpus", "0", "--out", str(out), "--quiet", "--format", "csv"]
    told = done(*words, "--seed", "7")
    assert (told.code, told.said) == (0, "")
    assert [line["probe"] for line in csv.DictReader(io.StringIO(told.out))] == ["kernel.loop"]
    request, contents = read_request(out), read_journal(out)
    assert (request.budget_seconds, request.cpus, request.seed) == (9, (0,), 7)
    assert {outcome.cpus for outcome in contents.outcomes} == {(0,)}
    assert (root / "runs/LAST").resolve() == out
    assert done("run", "kernel.loop", "--seed", "8").said


def test_the_seed_decides_the_order(done: Toll, root: Path) -> None:
    """Of one round of two points; what comes later depends on how long visits and layouts took."""

    def order(seed: str, out: str) -> list[str]:
        done("run", "--seed", seed, "--out", out, "--quiet")
        return [outcome.point.probe for outcome in read_journal(root / out).outcomes][:2]

    assert order("1", "a") == order("1", "b")
    assert len({tuple(order(str(seed), f"c{seed}")) for seed in (2, 8)}) > 1


def test_a_dry_run_measures_and_leaves_nothing(done: Toll, root: Path) -> None:
    told = done("run", "--dry-run")
    assert told.code == 0
    assert "kernel.enter" in told.out
    assert not (root / "runs").exists()


@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
def test_show_prints_what_run_ended_with(done: Toll, form: str) -> None:
    ran = done("run", "--format", form, "--quiet", "--out", "mine")
    again = done("show", "mine", "--format", form)
    assert (ran.code, again.code) == (0, 0)
    assert ran.out == again.out
    assert len({done("show", "mine", "--format", other).out for other in ("table", "json", "csv", "md")}) == 4


def test_raw_and_exported_samples_are_all_there(done: Toll, root: Path) -> None:
    done("run", "--quiet")
    taken = sum(len(outcome.samples) for outcome in read_journal(root / "runs/LAST").outcomes)
    assert len(done("show", "LAST", "--raw", "--format", "csv").out.splitlines()) == taken + 1
    assert len(done("export", "LAST", "--what", "samples", "--format", "jsonl").out.splitlines()) == taken
    assert done("export", "LAST", "--format", "json", "--out", "table.json").code == 0
    assert len(json.loads((root / "table.json").read_text())) == 2


def test_the_page_and_its_charts_are_written_where_asked(done: Toll, root: Path) -> None:
    done("run", "--quiet")
    told = done("report", "LAST", "--out", "page.html", "--charts", "charts")
    assert told.code == 0, told.said
    assert (root / "page.html").stat().st_size > 10_000
    assert told.out.splitlines()[0] == "page.html"
    assert all((root / line).is_file() for line in told.out.splitlines())


def test_two_runs_are_drawn_on_one_page(done: Toll, root: Path) -> None:
    """Each of the four probes is a toll, so that the ladder is a chart of both."""
    tree(root, enter="good", loop="good", gate="good", call="good")
    for name in ("a", "b"):
        done("run", "--quiet", "--out", name)
    told = done("report", "a", "b")
    assert (told.code, told.out, told.said) == (0, "a/beside-b.html\n", "")
    assert (root / "a/beside-b.html").stat().st_size > 10_000
    lines = done("report", "a", "b", "--out", "two.html", "--charts", "charts").out.splitlines()
    assert lines[0] == "two.html" and "charts/ladder.svg" in lines
    assert all((root / line).is_file() for line in lines)
    picture = (root / "charts/ladder.svg").read_text(encoding="utf-8")
    assert "A · a" in picture and "B · b" in picture


def test_runs_that_make_no_pair_are_one_line_each(done: Toll, root: Path) -> None:
    for name, probe in (("a", "kernel.enter"), ("b", "kernel.loop")):
        done("run", probe, "--quiet", "--out", name)
    shutil.copytree(root / "a", root / "copied")
    shutil.copytree(root / "a", root / "damaged")
    (root / "damaged" / NAME).write_text("{}\n")
    pairs = (("a", "a"), 2), (("a", "copied"), 2), (("a", "b", "copied"), 2), (("a", "none"), 2), (("a", "damaged"), 5)
    for names, code in (*pairs, (("a", "b"), 4)):
        told = done("report", *names)
        assert told.code == code, told
        assert one_line(told) and not told.out
    assert not list(root.rglob("beside-*"))


def test_an_interrupted_run_is_drawn_beside_another_and_says_so(done: Toll, root: Path) -> None:
    tree(root, enter="good", loop="good", gate="good", call="good")
    for name in ("a", "b"):
        done("run", "--quiet", "--out", name)
    *begun, last, _ = (root / "b" / NAME).read_bytes().splitlines(keepends=True)
    assert last.startswith(b'{"k":"run"')
    (root / "b" / NAME).write_bytes(b"".join(begun))
    assert done("report", "a", "b").code == 0
    assert "nterrupted: the run was stopped before its end" in (root / "a/beside-b.html").read_text(encoding="utf-8")


def test_listing_loads_nothing_heavy(root: Path) -> None:
    heavy = "{'numpy', 'scipy', 'jinja2', 'duckdb'}"
    tell = f"import atexit, sys\natexit.register(lambda: print(sorted({heavy} & {{*sys.modules}})))\n"
    (root / "sitecustomize.py").write_text(tell)
    environment = {**os.environ, "PYTHONPATH": f"{root}:{Path(__file__).parents[2] / 'src'}"}
    for what in ("probes", "suites", "abis", "runs"):
        told = outside(root, "list", what, env=environment)
        assert told.out.splitlines()[-1] == "[]", told


# ---- probes that go wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "code", "status"),
    [
        ("crash", 1, "failed"),
        ("wrong", 1, "wrong_answer"),
        ("deadline", 1, "timeout"),
        ("skip", 0, "unsupported"),
        ("cut", 5, "infrastructure"),
    ],
)
def test_one_bad_probe_costs_its_own_row_only(done: Toll, root: Path, behaviour: str, code: int, status: str) -> None:
    tree(root, enter="good", bad=behaviour)
    assert done("run", "--quiet").code == code
    rows = {row["probe"]: row for row in shown(done)["rows"]}
    assert rows["kernel.enter"]["status"] == "ok"
    assert rows["kernel.bad"]["status"] == status
    assert rows["kernel.bad"]["reason"]


# ---- words that mean nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "kernel.lop"], "kernel.loop"),
        (["run", "kernel.loop", "sise=4096"], "sise"),
        (["run", "--budget", "soon"], "soon"),
        (["run", "--budget", "0"], "0"),
        (["run", "--abi", "x99"], "x99"),
        (["run", "--cpus", "two"], "two"),
        (["run", "--cpus", "4095"], "4095"),
        (["run", "--seed", "-1"], "-1"),
        (["run", "--seed", "x"], "toll run --help"),
        (["run", "--format", "xml"], "json"),
        (["run", "missing.toml"], "missing.toml"),
        (["run", "--resume", "nothing"], "nothing"),
        (["show", "nothing"], "nothing"),
        (["show", "LAST", "--format", "xml"], "xml"),
        (["list", "prbes"], "probes"),
        (["lst"], "list"),
        (["export", "LAST", "--what", "all"], "tolls"),
        (["report", "\x1b[2J"], "run"),
        (["run", "--resume", ""], "--resume"),
        (["run", "--abi", ""], "--abi"),
        (["run", "--target="], "--target"),
        (["run", "--abi", ","], "name is missing"),
        (["run", ""], "empty"),
        (["show", ""], "empty"),
        (["run", "--cpus", "1-0"], "1-0"),
        (["run", "--cpus", ""], "--cpus"),
        (["run", "--target", "local:foo"], "local:foo"),
        (["run", "--target", "local,ssh:host;true"], "'host;true' is not a host name"),
        (["run", "--out", ""], "--out"),
        (["run", "--out", "/"], "folder of its own"),
        (["run", "--budget", LONG], "--budget 999"),
        (["run", "--budget", f"{LONG}h"], "days"),
        (["run", "--precision", f"{LONG}%"], "--precision 999"),
        (["run", "KERNEL.LOOP", "--dry-run"], "did you mean kernel.loop"),
    ],
)
def test_a_wrong_word_is_one_line_and_leaves_nothing(done: Toll, root: Path, words: list[str], named: str) -> None:
    told = done(*words)
    assert told.code == 2
    assert named in one_line(told) and len(told.said) < 300
    assert "\x1b" not in told.said
    assert not told.out
    assert not list(root.glob("runs/*/journal.jsonl"))


@pytest.mark.parametrize(
    "words", [["run", "--out", "x"], ["show"], ["fleet", "report"], ["time", "-n", "1", "true"], ["import"]]
)
def test_a_word_that_is_not_utf_8_is_a_short_line(done: Toll, words: list[str]) -> None:
    told = done(*words, os.fsdecode(b"a\xff"))
    assert told.code == 2 and "a\ufffd is not UTF-8" in told.said


def test_what_cannot_be_built_is_said(done: Toll, root: Path) -> None:
    shutil.rmtree(root / "build")
    told = done("run")
    assert told.code == 6
    assert "no ABI can be built here" in one_line(told)


# ---- folders and disks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["file", "file/inside", "/proc/toll"])
def test_a_folder_that_cannot_be_written_is_one_line(done: Toll, root: Path, out: str) -> None:
    (root / "file").write_text("")
    told = done("run", "--out", out)
    assert told.code in (2, 5)
    assert out.rsplit("/", maxsplit=1)[-1] in one_line(told)


def test_a_folder_that_holds_a_run_is_not_overwritten(done: Toll, mine: Path) -> None:
    before = (mine / NAME).read_bytes()
    told = done("run", "--out", "mine")
    assert told.code == 2
    assert "--resume mine" in one_line(told)
    assert (mine / NAME).read_bytes() == before


def test_a_full_disk_keeps_what_was_measured(done: Toll, root: Path) -> None:
    limit = 12_000

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    told = outside(root, "run", "--out", "mine", "--quiet", preexec_fn=full)
    assert told.code == 5
    assert "--resume mine" in one_line(told)
    kept = read_journal(root / "mine").outcomes
    assert kept
    assert done("run", "--resume", "mine", "--quiet").code == 0
    after = read_journal(root / "mine").outcomes
    assert after[: len(kept)] == kept
    assert {*visits_of(after)} <= ENOUGH


def test_a_run_on_one_cpu_says_so_once(root: Path) -> None:
    told = outside(root, "run", "kernel.loop", "--quiet", preexec_fn=lambda: os.sched_setaffinity(0, {0}))
    assert told.code == 0
    assert "CPU" in one_line(told)


# ---- stopping ---------------------------------------------------------------------------------------------------


def started(root: Path) -> subprocess.Popen[str]:
    """A run that is in a visit, whose probe would hear a signal."""
    process = toll(root, "run", "--out", "mine", "--quiet")
    awaited(root, "*.listens", process)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_ends_after_the_sample_and_resuming_does_the_rest(done: Toll, root: Path, number: int) -> None:
    tree(root, enter="interruptible", loop="interruptible")
    process = started(root)
    process.send_signal(number)
    out, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert out
    assert len([outcome for outcome in read_journal(root / "mine").outcomes if outcome.status == "ok"]) == 1
    assert Counter(row["status"] for row in shown(done, "mine")["rows"]).keys() & {"interrupted"}
    for probe in ("kernel.enter", "kernel.loop"):
        change(root, probe, "good")
    assert done("run", "--resume", "mine", "--quiet").code == 0
    visits = [outcome for outcome in read_journal(root / "mine").outcomes if outcome.status == "ok"]
    assert {*visits_of(visits)} <= ENOUGH
    assert set(Counter(outcome.visit for outcome in visits).values()) == {1}
    assert [(row["status"], row["reason"]) for row in shown(done, "mine")["rows"]] == [("ok", None)] * 2


def test_the_second_ctrl_c_ends_at_once_and_leaves_no_process(root: Path) -> None:
    tree(root, enter="stubborn")
    process = started(root)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert "toll: " in process.stderr.readline() + process.stderr.readline(), "it says that it was heard"
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert [line for line in said.splitlines() if line] == ["toll: interrupted"]
    assert time.monotonic() - began < LONG_S, "the probe sleeps for ten minutes"
    assert not alive(root)
    assert read_journal(root / "mine").session.status == "interrupted"


def test_a_run_that_was_killed_opens_and_goes_on(done: Toll, root: Path) -> None:
    change(root, "kernel.enter", "stubborn")
    process = started(root)
    process.kill()
    process.communicate()
    assert {row["status"] for row in shown(done, "mine")["rows"]} <= {"ok", "interrupted"}
    for path in alive(root):
        os.kill(path, signal.SIGKILL)
    change(root, "kernel.enter", "good")
    assert done("run", "--resume", "mine", "--quiet").code == 0
    assert {row["status"] for row in shown(done, "mine")["rows"]} == {"ok"}


def alive(root: Path) -> list[int]:
    """Fakes of this checkout that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if str(root / "build").encode() in line and b"--stay" in line:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_finished_run_has_nothing_left_to_resume(done: Toll, mine: Path) -> None:
    before = read_journal(mine).outcomes
    assert done("run", "--resume", "mine", "--quiet").code == 0
    assert read_journal(mine).outcomes == before


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_run_that_came_from_elsewhere_starts_no_command_of_its_own(
    done: Toll, root: Path, mine: Path, more: tuple[str, ...]
) -> None:
    """`id > F` in a copied run.toml ran as root, before anything was said of another machine."""
    request = read_request(mine)
    evil = Workload(name="evil", what="w", start=("{out}",), verify="x", build=(("sh", "-c", f"id >{root}/ran"),))
    suite = msgspec.structs.replace(request.suite, workload=(evil,))
    write_request(mine, msgspec.structs.replace(request, suite=suite))
    told = done("run", "--resume", "mine", *more)
    assert told.code == 2
    assert "evil" in one_line(told)
    assert not (root / "ran").exists()


@pytest.mark.usefixtures("mine")
def test_resuming_with_another_executable_is_refused(done: Toll, root: Path) -> None:
    tree(root, enter="good", loop="good")
    path = next(root.glob("build/*/kernel.loop"))
    path.write_text(path.read_text() + "\n")
    assert done("run", "--resume", "mine").code == 5
    assert done("run", "--resume", "mine", "kernel.loop").code == 2


@pytest.mark.parametrize(("behaviour", "code"), [("crash", 1), ("skip", 6), ("cut", 5)])
def test_every_code_but_0_has_its_line_on_standard_error_also_with_quiet(
    done: Toll, root: Path, behaviour: str, code: int
) -> None:
    tree(root, loop=behaviour)
    told = done("run", "--out", "mine", "--quiet")
    assert (told.code, told.said.count("\n")) == (code, 1), told


def test_a_run_whose_folder_is_removed_stops(done: Toll, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It measured on into a file that no name leads to."""
    append = Journal.append

    def removing(journal: Journal, stream: bytes) -> None:
        append(journal, stream)
        shutil.rmtree(journal.folder, ignore_errors=True)

    monkeypatch.setattr(Journal, "append", removing)
    told = done("run", "--out", "mine", "--quiet")
    assert told.code == 5
    assert "removed" in one_line(told)
    assert not (root / "mine").exists()


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("columns", ["0", "00", "-0"])
def test_no_columns_are_no_reason_to_print_nothing(done: Toll, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert done("show", "mine").out.strip()


@pytest.mark.parametrize(
    ("place", "value"),
    [*(("[runs_sd]\n\"kernel.loop\" = ", value) for value in ("9223372036854775808", "1e300", "-1", "inf", "nan")),
     *(("\nprecision = ", value) for value in ("-1.0", "0", "1e300", "nan"))],
)  # fmt: skip
def test_a_number_that_no_run_has_is_a_damaged_run(done: Toll, mine: Path, place: str, value: str) -> None:
    """A scatter between runs, which the file need not have, and a precision outside of 0 to 100 percent."""
    path = mine / "run.toml"
    before, _, after = path.read_text().partition(place)
    path.write_text(f"{before}{place}{value}\n" + after.partition("\n")[2])
    (mine / "index.sqlite").unlink(missing_ok=True)
    told = done("show", "mine")
    assert told.code == 5
    assert "run.toml is damaged" in one_line(told)


def test_a_dry_run_of_resume_prints_the_remaining_plan_and_measures_nothing(done: Toll, mine: Path) -> None:
    before = (mine / NAME).read_bytes()
    told = done("run", "--resume", "mine", "--dry-run")
    assert told.code == 0
    assert "kernel.loop" in told.out and "done already" in told.said
    assert (mine / NAME).read_bytes() == before


# ---- hostile runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["journal.jsonl", "run.toml"])
@pytest.mark.parametrize("content", [b"", b"\x1b]0;owned\x07\n", b"\xff" * 5000 + b"\n", b"[" * 200_000, b"{}\n" * 9])
def test_a_hostile_run_is_one_line(done: Toll, mine: Path, name: str, content: bytes) -> None:
    (mine / name).write_bytes(content)
    for verb in (
        ["show", "mine"],
        ["show", "mine", "--format", "json"],
        ["report", "mine"],
        ["run", "--resume", "mine"],
    ):
        told = done(*verb)
        assert told.code in (2, 5), told
        assert "\x1b" not in one_line(told)


def test_a_run_of_a_newer_tollmeter_is_named_as_such(done: Toll, mine: Path) -> None:
    path = mine / "run.toml"
    path.write_text(path.read_text().replace("\nformat = 2\n", "\nformat = 3\n"))
    told = done("show", "mine")
    assert told.code == 2
    assert "newer" in one_line(told)


@pytest.mark.usefixtures("mine")
def test_a_closed_pipe_is_no_error(root: Path) -> None:
    process = toll(root, "show", "mine", "--raw")
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=LONG_S) == 0


def test_a_read_only_run_still_shows(done: Toll, mine: Path) -> None:
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        (mine / name).unlink(missing_ok=True)
    (mine / "index.sqlite").mkdir()
    assert [row["status"] for row in shown(done, "mine")["rows"]] == ["ok", "ok"]


@pytest.mark.parametrize("name", [NAME, "run.toml", "index.sqlite"])
def test_a_pipe_in_a_run_is_not_waited_for(done: Toll, mine: Path, name: str) -> None:
    (mine / name).unlink()
    os.mkfifo(mine / name)
    for more in ([], ["--format", "json"]):
        told = done("show", "mine", *more)
        assert told.code == (0 if name == "index.sqlite" else 5)
        assert "Traceback" not in told.said


def test_a_report_is_not_written_through_a_link(done: Toll, root: Path, mine: Path) -> None:
    (root / "precious").write_text("precious")
    (mine / "report.html").unlink()
    for link in ("report.html", f".report.html.{os.getpid()}", ".rows.csv.half"):
        (mine / link).symlink_to(root / "precious")
    assert done("report", "mine").code == 0
    assert done("export", "mine", "--out", "mine/rows.csv").code == 0
    assert (root / "precious").read_text() == "precious"
    assert not (mine / "report.html").is_symlink()
