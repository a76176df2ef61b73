# SPDX-License-Identifier: Apache-2.0
"""A command measured as a probe: built by its own words, proved by what it prints, and never read by a shell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from support.waiting import LONG_S
from tollmeter.catalog import read_suite
from tollmeter.model import Abi, Failure, Outcome, Workload
from tollmeter.notices import spent_once_s
from tollmeter.protocol import outcome
from tollmeter.store.request import Request, read_request, write_request
from tollmeter.toolchain import workload_build
from tollmeter.toolchain.abis import read_abi

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
question = "?"
select = []
[[workload]]
name = "echo"
what = "?"
start = ["echo", "a;b"]
verify = "a;b"
"""


@pytest.fixture(scope="module")
def abi() -> Abi:
    if not (ROOT / "build/x86_64/libtoll.a").is_file():
        pytest.skip("nothing is built for x86_64")
    return read_abi(ROOT / "abis/x86_64.toml")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout whose workloads are built somewhere else."""
    (tmp_path / "probes").symlink_to(ROOT / "probes")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/x86_64").symlink_to(ROOT / "build/x86_64")
    return tmp_path


def ran(tree: Path, abi: Abi, workload: Workload) -> Outcome:
    executable = workload_build.made(tree, workload, abi)
    words = [executable, "--samples=1", "--sample-ns=1000000"]
    return outcome(subprocess.run(words, capture_output=True, check=True, timeout=LONG_S).stdout)


def workload(*start: str, verify: str, build: tuple[tuple[str, ...], ...] = ()) -> Workload:
    return Workload(name="one", what="?", start=start, verify=verify, build=build)


def test_words_are_never_read_by_a_shell(tree: Path, abi: Abi) -> None:
    done = ran(
        tree, abi, workload("echo", "$(id) ; `id` > x | y 'z' \"q\" \\", verify="$(id) ; `id` > x | y 'z' \"q\" \\")
    )
    assert done.status == "ok"
    assert done.gauges["resident_peak"] > 0
    assert done.gauges["minor_faults"] > 0
    assert done.gauges["cpu_time"] > 0


def test_a_workload_that_is_built_is_not_compiled_for_and_counts_as_built_once(
    tree: Path, abi: Abi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of two compilers took 1.5 s of each run of 5 s beside busy programs."""
    asked, before_s = workload("echo", "x", verify="x"), spent_once_s()
    path = workload_build.made(tree, asked, abi)
    built_s = spent_once_s()
    assert built_s > before_s
    monkeypatch.setattr(workload_build, "compiler_of", lambda _: pytest.fail("a compiler was looked for"))
    assert workload_build.made(tree, asked, abi) == path
    assert spent_once_s() == built_s


@pytest.mark.parametrize(
    ("start", "why"),
    [(("echo", "wrong"), "did not print what it should"), (("false",), "ended with status 1"),
     (("no-such-command",), "no command no-such-command here"), (("sh", "-c", "kill -9 $$"), "signal 9")],
)  # fmt: skip
def test_a_command_that_fails_or_answers_wrongly_has_no_number(
    tree: Path, abi: Abi, start: tuple[str, ...], why: str
) -> None:
    done = ran(tree, abi, workload(*start, verify="right"))
    assert done.status == "wrong_answer"
    assert why in (done.reason or "")


def test_too_little_memory_for_a_command_is_reported_with_both_sizes(tree: Path, abi: Abi) -> None:
    done = ran(tree, abi, msgspec.structs.replace(workload("true", verify="x"), memory_bytes=1 << 50))
    assert done.status == "unsupported"
    assert re.search(r"needs 1073741824 MiB of memory, and \d+ MiB are left", done.reason or "")


def test_a_program_is_built_by_its_words_and_carried_along(tree: Path, abi: Abi) -> None:
    source = tree / "one.c"
    source.write_text("#include <stdio.h>\nint main(int n, char **w) { return n > 1 && puts(w[1]) < 0; }\n")
    built = (("{cc}", "{flags}", "-O1", "-static", "-o", "{out}", f"{source}"),)
    done = ran(tree, abi, workload("{out}", "it answers", verify="it answers", build=built))
    assert done.status == "ok", done.reason
    assert {"resident", "proportional", "page_tables", "mapped", "heap"} <= set(done.gauges)
    assert done.gauges["resident"] <= 1.05 * done.gauges["resident_peak"]


def test_what_does_not_build_says_what_the_compiler_says(tree: Path, abi: Abi) -> None:
    wrong = (("{cc}", "{flags}", "no-such-file.c"),)
    with pytest.raises(Failure, match=r"one for x86_64 does not build: .*no-such-file"):
        ran(tree, abi, workload("{out}", verify="x", build=wrong))


def test_a_suite_may_be_of_workloads_alone_and_not_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(SUITE.replace("select = []\n", ""))
    assert [one.name for one in read_suite(path).workload] == ["echo"]
    path.write_text('question = "?"\n')
    with pytest.raises(Failure, match=r"measures nothing: a suite has a \[\[select\]\] or a \[\[workload\]\]"):
        read_suite(path)


def test_the_words_of_a_command_keep_their_line_breaks_and_blanks(tmp_path: Path) -> None:
    """A script may be of several lines; prose that is broken over lines is one paragraph. A run is gone on with by
    the same words."""
    path = tmp_path / "one.toml"
    path.write_text(SUITE.replace('"a;b"]', '"""a  b\n\tc"""]').replace('what = "?"', 'what = """x\ny"""'))
    suite = read_suite(path)
    assert suite.workload[0].start == ("echo", "a  b\n\tc")
    assert suite.workload[0].what == "x y"
    write_request(
        tmp_path, Request(id="one", suite=suite, started="2026-01-01", seed=1, budget_seconds=1, tollmeter="1")
    )
    assert read_request(tmp_path).suite.workload == suite.workload


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(SUITE)
    assert read_suite(path).workload[0].start == ("echo", "a;b")
    path.write_text(SUITE + 'shell = "sh"\n')
    with pytest.raises(Failure, match="shell"):
        read_suite(path)
