# SPDX-License-Identifier: Apache-2.0
"""`toll time`: what is started, in which order, when it ends, and what is said of it; with commands that exist only as
numbers, and a few real ones."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.fake_catalog import MACHINE
from support.waiting import LONG_S, in_time
from tollmeter.cli.main import main
from tollmeter.cli.time import with_joined_values
from tollmeter.findings import carried
from tollmeter.library import timed
from tollmeter.library.command_metrics import (
    ACCOUNTED,
    COMMAND_METRICS,
    SOFTWARE,
    values_of,
    why_no_energy,
    why_uncounted,
)
from tollmeter.library.derive import open_run
from tollmeter.library.hyperfine import Result, as_json, compared_sentences, read_results, results_of
from tollmeter.library.options import Options, TimeOptions, statuses
from tollmeter.library.prepare import sealed_head
from tollmeter.library.resume import interrupted
from tollmeter.library.typed_commands import commands_of, needs_shell, parameter_sets, scanned, words_of
from tollmeter.model import EXIT_STATUS, Build, ClockReading, Failure, Opposed, Results
from tollmeter.report.timed import gauges_of, lines, pair_verdict
from tollmeter.store.journal import Journal
from tollmeter.targets import energy
from tollmeter.targets.timer import Input, Output, Ran, Timer, Words, holders
from tollmeter.toolchain import workload_build
from tollmeter.toolchain.abis import read_abi
from tollmeter.toolchain.build import find_compiler

ROOT = Path(__file__).resolve().parents[2]
EVERY_SET = parameter_sets((), None, ())
PRECISION, BUDGET_S = 0.03, 20.0


# ---- the words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shell"),
    [("sleep 0.1", False), ("grep 'a|b' file", False), ('echo "a b"', False), ("echo a\\;b", False), ("a=b", True),
     ("find . -name x=y", False), ("a | b", True), ("echo $HOME", True), ('echo "$HOME"', True),
     ("echo '$HOME'", False), ("echo *", True), ("a; b", True), ("a > b", True), ("echo `id`", True),
     ("! true", True), ("cat ~/x", True), ('echo "it\'s; $x"', True), ('echo "it\'s; x"', False)],
)  # fmt: skip
def test_a_shell_reads_a_command_only_where_it_has_syntax_of_one(text: str, shell: bool) -> None:
    assert needs_shell(text) is shell


def test_words_are_found_once_and_a_shell_is_named() -> None:
    words, by = words_of("true 'a b'", None)
    assert (Path(words.path).name, words.words, by) == ("true", ("true", "a b"), "")
    words, by = words_of("true; true", None)
    assert (words.words, by) == (("/bin/sh", "-c", "true; true"), "/bin/sh")
    assert words_of("true; true", "none")[0].words == ("true;", "true") if shutil.which("true;") else True
    assert words_of("true", "sh -e")[0].words == ("sh", "-e", "-c", "true")
    assert words_of("cd /", None)[1] == "/bin/sh"


def test_a_missing_command_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["time", "slepp 1"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main(["time", "sleep", "0.0471"]) == 2
    assert "time 'sleep 0.0471'" in capsys.readouterr().err
    with pytest.raises(Failure, match="does not exist"):
        words_of("/no/such/command", None)
    with pytest.raises(Failure, match="no closing quotation"):
        words_of("echo 'a", "none")


def test_parameters_make_a_command_for_each_value_that_it_names() -> None:
    sets = parameter_sets([("n", "0.1", "0.3")], "0.1", [("c", "a,b")])
    assert scanned("n", "0.1", "0.3", "0.1") == ["0.1", "0.2", "0.3"]
    assert len(sets) == 6
    commands = commands_of(["echo {n}", "echo {c}", "true", "true"], ["first"], sets, None)
    assert [command.text for command in commands[:5]] == ["echo 0.1", "echo 0.2", "echo 0.3", "echo a", "echo b"]
    assert [command.name for command in commands] == [
        "first", "echo 0.2", "echo 0.3", "echo a", "echo b", "true", "true (2)",
    ]  # fmt: skip
    assert commands[0].parameters == (("n", "0.1"),)
    named = commands_of(["echo {c}"], ["say {c}"], parameter_sets([], None, [("c", "a,b")]), None)
    assert [command.name for command in named] == ["say a", "say b"]
    for wrong in ([("n", "1", "x")], [("n", "2", "1")]):
        with pytest.raises(Failure, match="parameter-scan"):
            parameter_sets(wrong, None, [])


def test_values_of_a_parameter_are_one_word_for_the_parser() -> None:
    assert with_joined_values(["time", "-P", "n", "1", "2", "-L", "c", "a,b", "x {n}"]) == [
        "time", "-P", "n\x1f1\x1f2", "-L", "c\x1fa,b", "x {n}",
    ]  # fmt: skip
    assert with_joined_values(["time", "--", "-P", "n"]) == ["time", "--", "-P", "n"]
    assert with_joined_values(["time", "-i=7", "-Ni", "x"]) == [
        "time", "--ignore-failure=7", "-N", "--ignore-failure=all-non-zero", "x",
    ]  # fmt: skip
    assert (statuses("1,7"), statuses("all-non-zero"), statuses("")) == ({1, 7}, None, frozenset())


# ---- runs that are numbers ------------------------------------------------------------------------------------------


class Stopping:
    asked = False


def always(value: int) -> Callable[[int, int], int]:
    return lambda *_: value


class Process:
    """Answers for the timer. wall_ns, status, output: of a run, by the command's place and how often it ran before.
    counts: of each event, in the first command; where there are several, twice as many in the second."""

    def __init__(
        self, wall_ns: Callable[[int, int], float], status: Callable[[int, int], int] = always(0),
        output: Callable[[int, int], int] = always(7), counts: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.now_s = 0.0
        self.counted: list[int] = []
        self.events: list[tuple[str, ...]] = []
        self.order: list[int] = []
        self.sinks: list[str] = []
        self._of = wall_ns, status, output
        self._counts = counts or {"instructions": 1_234_567}

    def run(self, place: int, source: Input = "n", sink: Output = "n", *, events: Sequence[str] = ()) -> Ran:
        del source
        run = self.order.count(place)
        self.order.append(place)
        self.counted += [place] if events else []
        self.events.append(tuple(events))
        self.sinks.append(sink)
        took, status, output = (of(place, run) for of in self._of)
        self.now_s += took / 1e9
        return Ran(
            0, status << 8, 1 + round(self.now_s * 1e9), round(took), 600_000, 100_000, 1 << 20, 75, 0, 8, 0, 1, 2, 3,
            output, 0, tuple(self._counts[name] * (1 + (place and len(self._counts) > 1)) for name in events),
            "it says why\n",
        )  # fmt: skip


def base(metrics: tuple[str, ...] = (), uncounted: dict[str, str] | None = None) -> timed.Base:
    build = Build(probe=timed.PROBE, abi="x86_64", compiler="gcc", flags="")
    clock = ClockReading(resolution_ns=1, cost_ns=20)
    return timed.Base(Path("timer"), "x86_64", build, MACHINE, clock, metrics, uncounted or {})


def measured(
    folder: Path, process: Process, options: TimeOptions, *texts: str, stopping: Stopping | None = None
) -> tuple[timed.Timed, Results]:
    commands = commands_of(texts or ("true", "true"), (), EVERY_SET, None)
    options = options._replace(out=folder / "run", words=("true", "true"))
    on = base(options.metrics)
    first = sealed_head(on.machine, on.clock, [on.probe(commands)], [on.build])
    with Journal.create(folder / "run", timed._request(commands, options, "x86_64"), first) as journal:
        hooked, _ = timed._with_hooks(commands, options)
        timing = timed._Timing(
            hooked, options, process, journal, on, stopping=stopping or Stopping(), now=lambda: process.now_s
        )
        done = timing.to_the_end(lambda *_: None)
    return done, open_run(folder / "run")


def shown(results: Results, *names: str, metrics: Sequence[str] = ()) -> str:
    return "\n".join(lines(results, dict.fromkeys(names, ""), PRECISION, BUDGET_S, metrics))


def noisy(*means_ms: float, share: float = 0.01) -> Callable[[int, int], float]:
    chance = random.Random(1)
    return lambda place, _: 1e6 * means_ms[place] * chance.lognormvariate(0, share)


def test_the_same_command_twice_is_the_same_and_the_order_is_abba(tmp_path: Path) -> None:
    process = Process(noisy(10, 10))
    done, results = measured(tmp_path, process, TimeOptions())
    assert not done.session.reason and results.index.run.status == "settled"
    assert process.order[:10] == [0, 1, 0, 1, 1, 0, 0, 1, 1, 0]
    assert set(process.sinks[:2]) == {"p"} and set(process.sinks[2:]) == {"m"}
    (pair,) = results.index.opposed
    assert pair.blocks >= 5 and pair.high / pair.low < 1.021
    assert "same within 3 %" in shown(results, "true", "true (2)")
    row = next(row for row in results.index.rows if row.metric == "time")
    assert row.median and row.low and row.median / row.low > 1.019, "runs of one machine differ by 1 %"


def test_a_difference_of_three_percent_is_resolved_before_the_budget_ends(tmp_path: Path) -> None:
    _, results = measured(tmp_path, Process(noisy(10, 10.3)), TimeOptions())
    (pair,) = results.index.opposed
    assert pair.verdict == "slower" and pair.low < 1.03 < pair.high
    assert "slower: +" in shown(results, "true", "true (2)")
    assert results.index.run.seconds < 20


def test_a_difference_is_resolved_beside_programs_that_lengthen_half_of_the_runs(tmp_path: Path) -> None:
    chance, own = random.Random(1), noisy(10, 10.3)

    def took(place: int, run: int) -> float:
        return own(place, run) * (1 + chance.choice([0, chance.expovariate(5)]))

    _, results = measured(tmp_path, Process(took), TimeOptions(runs=200))
    (pair,) = results.index.opposed
    assert pair.verdict == "slower" and pair.low < 1.03 < pair.high and pair.high / pair.low < 1.02


def test_what_a_budget_leaves_open_is_said_with_the_budget_that_would_do(tmp_path: Path) -> None:
    _, results = measured(tmp_path, Process(noisy(10, 10, share=0.5)), TimeOptions())
    assert results.index.run.status == "budget" and 19 < results.index.run.seconds <= 20.1
    assert "cannot tell" in shown(results, "true", "true (2)") and "--budget" in shown(results, "true", "true (2)")


def test_fewer_than_three_runs_have_no_interval(tmp_path: Path) -> None:
    for runs in (1, 2, 3):
        _, results = measured(tmp_path / f"{runs}", Process(noisy(10)), TimeOptions(runs=runs), "true")
        assert ("95 %" in shown(results, "true")) is (runs == 3)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((1.014, 1.005, 1.023), "1.4 % slower (0.5 to 2.3 %), below the threshold of 3 %"),
        ((0.986, 0.977, 0.995), "1.4 % faster (0.5 to 2.3 %), below the threshold of 3 %"),
        ((1.004, 0.995, 1.013), "same within 3 %: +0.4 % (-0.5 to +1.3 %)"),
    ],
)
def test_a_small_difference_is_not_called_the_same(ends: tuple[float, float, float], said: str) -> None:
    ratio, low, high = ends
    pair = Opposed(
        metric="time", unit="ns", point="b", against="a", ratio=ratio, low=low, high=high, blocks=20,
        verdict="cannot tell",
    )  # fmt: skip
    assert pair_verdict(pair, PRECISION, BUDGET_S, 10.0) == said


@pytest.mark.parametrize(("options", "runs"), [
    (TimeOptions(), 3), (TimeOptions(budget_s=20), 1), (TimeOptions(runs=4), 4), (TimeOptions(min_runs=5), 5),
])  # fmt: skip
def test_a_slow_command_runs_three_times_in_the_default_budget(tmp_path: Path, options: TimeOptions, runs: int) -> None:
    process = Process(always(15_000_000_000))
    measured(tmp_path, process, options, "true")
    assert len(process.order) == 1 + runs


def test_two_slow_commands_have_a_ratio(tmp_path: Path) -> None:
    _, results = measured(tmp_path, Process(noisy(8000, 9000)), TimeOptions())
    assert results.index.opposed[0].verdict == "slower"


def test_a_run_that_fails_ends_it_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    process = Process(noisy(10, 10), lambda place, run: 3 if (place, run) == (1, 37) else 0)
    done, results = measured(tmp_path, process, TimeOptions())
    assert done.session.reason == "true (2) failed in run 37: exit status 3: it says why"
    assert [row.visits for row in results.index.rows if row.metric == "time"] == [37, 36]
    assert len(results.index.opposed) == 1


def test_runs_that_fail_count_where_that_is_asked_for(tmp_path: Path) -> None:
    process = Process(noisy(10, 10), lambda place, run: 3 if place and run % 4 == 1 else 0)
    done, results = measured(tmp_path, process, TimeOptions(runs=20, allowed=frozenset({2, 3})))
    failed = [*gauges_of(results.outcomes, "true (2)", EXIT_STATUS)]
    assert not done.session.reason and failed == [3] * 5
    assert "5 of 20 runs ended with a status other than 0 (3: 5)" in shown(results, "true", "true (2)")


def test_a_command_that_fails_at_once_has_no_number(tmp_path: Path) -> None:
    done, results = measured(tmp_path, Process(noisy(10, 10), always(1)), TimeOptions())
    assert "true failed before it was timed" in str(done.session.reason)
    assert "no time: exit status 1" in shown(results, "true")


def test_instructions_are_counted_in_the_run_that_is_not_timed(tmp_path: Path) -> None:
    process = Process(noisy(10, 10))
    _, results = measured(tmp_path, process, TimeOptions(runs=10))
    assert process.counted == [0, 1]
    assert [row.median for row in results.index.rows if row.metric == "instructions"] == [1_234_567] * 2
    assert "1,234,567 instructions in user mode" in shown(results, "true")


EVERY_COUNT = {name: 1000 * (place + 1) for place, name in enumerate(COMMAND_METRICS)}


def test_metrics_that_are_asked_for_are_counted_in_every_run_and_compared(tmp_path: Path) -> None:
    process = Process(noisy(10, 10), counts={"cycles": 4000, "instructions": 9000})
    metrics = ("cycles", "instructions", "page-faults", "energy")
    done, results = measured(tmp_path, process, TimeOptions(runs=40, metrics=metrics))
    assert process.events[:2] == [(), ()] and {*process.events[2:]} == {("cycles", "instructions")}
    medians = {(row.parameters["command"], row.metric): row.median for row in results.index.rows}
    assert [medians["true", name] for name in metrics] == [4000, 9000, 75, None]
    ratios = {pair.metric: round(pair.ratio, 3) for pair in results.index.opposed}
    assert (ratios["cycles"], ratios["instructions"], ratios["page-faults"]) == (2, 2, 1)
    said = shown(results, "true", "true (2)", metrics=metrics)
    assert "cycles: 2.00 times as many" in said and "page-faults 75" in said
    assert "energy" not in said and "in some runs" in done.uncounted["energy"]


def test_more_events_than_the_pmu_has_counters_are_taken_in_turns(tmp_path: Path) -> None:
    hardware = [name for name in COMMAND_METRICS if name not in (*ACCOUNTED, *SOFTWARE)]
    process = Process(noisy(10, 10), counts=EVERY_COUNT)
    _, results = measured(tmp_path, process, TimeOptions(runs=12, metrics=tuple(COMMAND_METRICS)))
    turns = process.events[2::2]
    assert all(len({*turn} & {*hardware}) <= 4 for turn in turns)
    assert {*hardware} <= {name for turn in turns for name in turn}
    of_first = {row.metric: row.median for row in results.index.rows if row.parameters["command"] == "true"}
    assert {name: of_first[name] for name in hardware} == {name: EVERY_COUNT[name] for name in hardware}


def test_a_count_of_a_part_of_a_run_is_no_count_and_is_reported(tmp_path: Path) -> None:
    process = Process(noisy(10, 10), counts={"cycles": -errno.EBUSY, "instructions": 9000})
    done, results = measured(tmp_path, process, TimeOptions(runs=10, metrics=("cycles", "instructions")))
    assert "only a part" in done.uncounted["cycles"] and "instructions" not in done.uncounted
    rows = {row.metric: row for row in results.index.rows}
    assert rows["cycles"].median is None and rows["instructions"].median


@pytest.mark.parametrize(
    ("name", "count", "is_counted"),
    [("cycles", 0, False), ("cycles", 5, True), ("cpu-migrations", 0, True), ("cycles", -errno.ENOENT, False)],
)
def test_a_hardware_counter_that_stays_at_0_counts_nothing(name: str, count: int, is_counted: bool) -> None:
    assert (not why_uncounted(name, count)) is is_counted


def test_an_unknown_metric_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["time", "--metrics", "cycels", "true"]) == 2
    assert "did you mean cycles" in capsys.readouterr().err
    assert main(["gate", "--metrics", "cycles,instructions", "--", "true", "--", "true"]) == 2


def test_output_that_changes_is_a_finding(tmp_path: Path) -> None:
    process = Process(noisy(10, 10), output=lambda place, run: 8 if (place, run) == (0, 9) else 7)
    _, results = measured(tmp_path, process, TimeOptions(runs=20))
    (finding,) = [one for one in results.index.findings if one.name == "command.output_changes"]
    assert "true printed different output than in its first run, in 1 of 20 runs" in finding.claim
    assert carried("busy", (finding,), (finding,)).findings == (finding,), "others change no output"


def test_what_belongs_to_a_command_is_started_around_it(tmp_path: Path) -> None:
    process = Process(always(1_000_000))
    options = TimeOptions(
        runs=2, warmup=1, setup="sh -c 1", prepare=("sh -c 2",), conclude=("sh -c 3",), cleanup="sh -c 4",
        verify="sh -c 5",
    )  # fmt: skip
    measured(tmp_path, process, options, "true")
    setup, prepare, conclude, cleanup, verify = range(1, 6)
    one = [prepare, 0, conclude]
    assert process.order == [setup, *one, verify, *one, *one, verify, *one, verify, cleanup]


def test_an_answer_that_is_refused_takes_the_number(tmp_path: Path) -> None:
    process = Process(always(1_000_000), lambda place, run: 1 if (place, run) == (1, 5) else 0)
    done, results = measured(tmp_path, process, TimeOptions(runs=20, verify="sh -c 4"), "true")
    assert "--verify: exit status 1" in str(done.session.reason)
    assert {row.status for row in results.index.rows} == {"wrong_answer"}


def test_a_signal_keeps_what_was_measured(tmp_path: Path) -> None:
    stopping = Stopping()

    def took(_: int, run: int) -> float:
        stopping.asked = run >= 9
        return 1e6

    process = Process(took, lambda *_: 15 * stopping.asked)
    done, results = measured(tmp_path, process, TimeOptions(), stopping=stopping)
    assert {outcome.status for outcome in results.outcomes} == {"ok"}
    assert done.session.status == results.index.run.status == "interrupted"
    assert [row.visits for row in results.index.rows if row.metric == "time"] == [8, 8]


def test_a_copied_folder_starts_nothing(tmp_path: Path) -> None:
    measured(tmp_path, Process(noisy(10, 10)), TimeOptions(runs=10))
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    with pytest.raises(Failure, match="started only where they are typed"):
        interrupted(str(tmp_path / "elsewhere"), Options((), None, None, None, None, None, "table", True, 0.0))


def test_options_that_contradict_each_other_are_refused() -> None:
    for options in (
        TimeOptions(verify="true", output="null"),
        TimeOptions(prepare=("a", "b", "c")),
        TimeOptions(conclude=("a", "b", "c")),
        TimeOptions(runs=0),
        TimeOptions(warmup=-1),
        TimeOptions(max_runs=3, min_runs=5),
        TimeOptions(runs=3, max_runs=5),
    ):
        with pytest.raises(Failure):
            timed._check(options, 2)


# ---- hyperfine's files ----------------------------------------------------------------------------------------------


def test_results_are_written_as_hyperfine_does_and_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = commands_of(["true", "true"], (), EVERY_SET, None)
    _, results = measured(tmp_path, Process(noisy(10, 12)), TimeOptions(runs=12))
    path = tmp_path / "results.json"
    path.write_bytes(as_json(results_of(commands, results.outcomes)))
    first, second = json.loads(path.read_text())["results"]
    assert set(first) == {
        "command", "mean", "stddev", "median", "user", "system", "min", "max", "times", "exit_codes",
    }  # fmt: skip
    assert len(second["times"]) == 12 and second["exit_codes"] == [0] * 12
    assert first["mean"] == pytest.approx(0.010, rel=0.02) and first["user"] == pytest.approx(6e-4)
    said = "\n".join(compared_sentences(read_results(path)))
    assert "against 1  slower: +" in said
    assert main(["time", "--import", str(path)]) == 0
    assert capsys.readouterr().out.strip() == said
    path.write_text("[]")
    assert main(["time", "--import", str(path)]) == 2


def test_too_few_stored_times_are_reported_as_inconclusive() -> None:
    times = tuple(0.010 + 0.0003 * turn for turn in range(8))
    said = [*compared_sentences([Result(command="a", times=times), Result(command="b", times=times[:3])])]
    assert "no interval: 3 times are stored" in said[-1]
    same = [*compared_sentences([Result(command="a", times=times), Result(command="b", times=times)])]
    assert "cannot tell" in same[-1]
    untimed = [*compared_sentences([Result(command="a"), Result(command="b", times=times)])]
    assert "nothing can be compared" in untimed[-1]


# ---- real commands --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    abi = read_abi(ROOT / "abis/x86_64.toml")
    if not isinstance(find_compiler(abi), str):
        pytest.skip("no compiler for x86_64")
    tree = tmp_path_factory.mktemp("tree")
    (tree / "probes").symlink_to(ROOT / "probes")
    return workload_build.timer(tree, abi)


def test_two_processes_may_build_one_program_at_once(
    executable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second builds it whole between the first one's compiler and the end of its build."""
    del executable
    abi, compiled = read_abi(ROOT / "abis/x86_64.toml"), workload_build._run
    (tmp_path / "probes").symlink_to(ROOT / "probes")
    built: list[Path] = []

    def compiled_twice(*words: object) -> None:
        compiled(*words)  # type: ignore[arg-type]
        if not built:
            built.append(tmp_path)
            built.append(workload_build.timer(tmp_path, abi))

    monkeypatch.setattr(workload_build, "_run", compiled_twice)
    assert [tmp_path, workload_build.timer(tmp_path, abi)] == built
    assert [path.name for path in built[1].parent.iterdir()] == ["timer"]


def words(*several: str) -> Words:
    return Words(several[0], several)


@pytest.fixture
def process(executable: Path, tmp_path: Path) -> Iterator[Timer]:
    (tmp_path / "in").write_text("typed")
    several = [
        words("true"), words("sh", "-c", "echo why >&2; exit 3"), words("sh", "-c", "kill -9 $$"), words("cat"),
        words("/no/such/command"), words("head", "-c", "1000000", "/dev/zero"), words("grep", "-q", "typed"),
    ]  # fmt: skip
    with Timer(executable, several, f"{tmp_path / 'in'}", f"{tmp_path / 'out'}") as timer:
        yield timer


def test_runs_are_accounted_and_failures_named(process: Timer) -> None:
    ran = process.run(0)
    assert (ran.error, ran.status, ran.failure) == (0, 0, "")
    assert ran.wall_ns > 0 and ran.minor_faults > 0 and 0 < ran.peak_bytes < 64 << 20
    assert process.run(1).failure == "exit status 3: why"
    assert process.run(2).failure == "signal 9 ended it" and process.run(2).exit_code == 137
    assert process.run(4).failure == "it cannot be executed: No such file or directory"
    assert process.run(0).failure == ""


def test_each_metric_is_an_event_that_the_process_knows(process: Timer) -> None:
    names = [name for name in COMMAND_METRICS if name not in ACCOUNTED]
    refused = [[-count for count in process.run(0, events=[name]).counts] for name in names]
    assert [errno.EINVAL] not in refused
    assert process.run(0, events=["no-such-event"]).counts == (-errno.EINVAL,)


def test_moves_to_another_cpu_are_counted_in_all_processes_of_a_command(executable: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU")
    moves = f"import os; [os.sched_setaffinity(0, {{cpu}}) for cpu in {cpus[:2]}]"
    with Timer(executable, [words("sh", "-c", f'{sys.executable} -ISc "{moves}"; true')]) as timer:
        (moves,) = timer.run(0, events=["cpu-migrations"]).counts
    if moves in (-errno.EACCES, -errno.EPERM):
        pytest.skip("the kernel permits no counter of events in the kernel")
    assert moves >= 1


def test_input_and_output_go_where_they_are_sent(process: Timer, tmp_path: Path) -> None:
    kept, piped, nowhere = (process.run(3, "n", sink) for sink in ("m", "p", "n"))  # type: ignore[arg-type]
    assert kept.output_bytes == piped.output_bytes == len("typed") and kept.output_hash == piped.output_hash
    assert nowhere.output_hash == 0
    process.run(3, "n", "f")
    assert (tmp_path / "out").read_text() == "typed"
    process.run(3, "n", "m")
    assert process.run(6, "m").failure == ""
    large = [process.run(5, "n", sink) for sink in ("m", "p")]  # type: ignore[arg-type]
    assert {ran.output_bytes for ran in large} == {1_000_000} and len({ran.output_hash for ran in large}) == 1


def test_a_run_ends_with_its_command_though_another_process_holds_its_output(executable: Path) -> None:
    lines_of = ["echo first; sleep 1000 & true", "echo first; yes & true", "echo first; exec >&-; true"]
    with Timer(executable, [words("sh", "-c", line) for line in lines_of]) as timer:
        left, busy, closed = (timer.run(place, "n", "p") for place in range(3))
        assert [name.split(" (")[0] for name in holders(left.held_pipe)] == ["sleep 1000"]
    assert busy.held_pipe and not closed.held_pipe
    assert left.output_bytes == closed.output_bytes == len("first\n") and left.output_hash == closed.output_hash


def test_a_run_longer_than_its_limit_is_ended_with_what_it_started(executable: Path) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.05; done"
    several = [words("sh", "-c", "sleep 1000; true"), words("sh", "-c", stubborn), words("true")]
    with Timer(executable, several, limit_s=0.2) as timer:
        for place in (0, 1):
            assert "limit of one run" in timer.run(place, "n", "p").failure
        assert timer.run(2).failure == ""


def test_what_commands_left_behind_is_ended(executable: Path, tmp_path: Path) -> None:
    with Timer(executable, [words("sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pid")]) as timer:
        timer.run(0)
        left = int((tmp_path / "pid").read_text())
    in_time(lambda: not Path(f"/proc/{left}").exists() or "Z" in Path(f"/proc/{left}/stat").read_text().split()[2])


@pytest.fixture
def runs(own_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not (ROOT / "build/x86_64/libtoll.a").is_file():
        pytest.skip("nothing is built for x86_64")
    monkeypatch.setenv("TOLL_LOCK", str(tmp_path))
    return own_runs


def test_a_real_comparison_is_an_ordinary_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export = runs.with_name("results.json")
    assert main(["time", "-r", "12", "sleep 0.002", "sleep 0.1", "--export-json", f"{export}"]) == 0
    assert "slower" in capsys.readouterr().out
    assert len(json.loads(export.read_text())["results"]) == 2
    (folder,) = [path for path in runs.iterdir() if path.name != "LAST"]
    assert main(["show", "LAST"]) == 0
    assert open_run(folder).index.run.surroundings is not None
    assert main(["export", str(folder), "--format", "csv"]) == 0
    assert main(["report", str(folder), "--out", f"{runs.with_name('page.html')}"]) == 0


def test_an_export_to_standard_output_is_all_that_is_there(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del runs
    assert main(["time", "-r", "3", "true", "--export-json", "-"]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["results"]) == 1 and "Run  " in printed.err


def test_a_real_failure_ends_with_one(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del runs
    assert main(["time", "ls /no/such/folder"]) == 1
    assert "failed before it was timed: exit status 2: ls" in capsys.readouterr().err
    assert main(["time", "--runs", "2", "no-such-command-here; true"]) in (0, 2)
    assert main(["time", "true; no-such-command-here"]) == 2


def test_a_first_signal_ends_it_with_130(tmp_path: Path) -> None:
    environment = {**os.environ, "TOLL_LOCK": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "tollmeter",
        "time",
        "--out",
        f"{tmp_path}/run",
        f"sh -c 'touch {tmp_path}/x; sleep 1000'",
    ]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    in_time((tmp_path / "x").exists)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 130 and "Run  " in out


# ---- energy ---------------------------------------------------------------------------------------------------------


def zone(folder: Path, name: str, uj: int, most: int = 999) -> Path:
    folder.mkdir(exist_ok=True)
    for file, text in (("name", name), ("energy_uj", f"{uj}"), ("max_energy_range_uj", f"{most}")):
        (folder / file).write_text(f"{text}\n")
    return folder / "energy_uj"


def test_energy_is_that_of_whole_packages_and_survives_a_round_of_the_counter(tmp_path: Path) -> None:
    counters = [zone(tmp_path / f"intel-rapl:{place}", f"package-{place}", 990) for place in range(2)]
    zone(tmp_path / "intel-rapl:0:0", "core", 5)
    zone(tmp_path / "intel-rapl:2", "psys", 5)
    several = energy.packages(tmp_path)
    before = energy.read_counters(several)
    counters[0].write_text("995\n")
    counters[1].write_text("15\n")
    assert energy.taken_uj(several, before, energy.read_counters(several)) == 5 + 25
    counters[0].unlink()
    assert energy.taken_uj(several, before, energy.read_counters(several)) == energy.UNREADABLE
    assert energy.packages(tmp_path / "nowhere") == {}


def test_a_run_has_its_energy_and_a_command_a_ratio_of_it(executable: Path, tmp_path: Path) -> None:
    counter = zone(tmp_path / "intel-rapl:0", "package-0", 10)
    write = words("sh", "-c", f"echo 700 > {counter}; sleep 0.06")
    with Timer(executable, [write], packages=energy.packages(tmp_path)) as timer:
        ran = timer.run(0)
    assert ran.energy_uj == 690
    assert values_of(("energy",), (), ran) == {"energy": 690e-6}
    with Timer(executable, [write]) as timer:
        unread = timer.run(0)
    assert unread.energy_uj == energy.UNREADABLE
    assert values_of(("energy",), (), unread) == {} and "powercap" in why_no_energy(unread)


@pytest.mark.parametrize(("wall_ns", "known"), [(49_999_999, False), (50_000_000, True)])
def test_a_run_that_a_counter_does_not_resolve_has_no_energy(wall_ns: int, *, known: bool) -> None:
    ran = Ran(*[0] * 3, wall_ns, *[0] * 12, energy_uj=2_000_000)
    assert values_of(("energy", "page-faults"), (), ran) == {"page-faults": 0} | ({"energy": 2.0} if known else {})
    assert ("once a millisecond" in why_no_energy(ran)) is not known
