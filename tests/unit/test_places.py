# SPDX-License-Identifier: Apache-2.0
"""Where runs are kept and found."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tollmeter import root as tollmeter_root
from tollmeter.library import places
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Failure, Select, Suite
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.store.request import Request, write_request


def made(folder: Path, number: int = 0, suite: Suite | None = None, text: str = "") -> Path:
    """A run of which there is no more than a journal, with a time of its own, and a suite."""
    folder.mkdir(parents=True)
    (folder / JOURNAL).write_text(text)
    os.utime(folder / JOURNAL, (number, number))
    if suite:
        write_request(folder, asked(folder.name, suite))
    return folder


def asked(name: str, suite: Suite) -> Request:
    return Request(id=name, suite=suite, started="", seed=1, budget_seconds=1, tollmeter="")


def suite(name: str, *probes: str) -> Suite:
    return Suite(name=name, question="?", select=tuple(Select(probe=probe) for probe in probes or ("kernel.loop",)))


@pytest.fixture
def shared(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that the person may only read, as a file system says that is mounted so."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(places, "ROOT", tree)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(tree) and real(path, mode))
    monkeypatch.setattr(places, "RUNS", places.runs_folder())
    return tree


def test_runs_of_a_checkout_are_in_it(tree: Path, checkout: Callable[[Path], Path]) -> None:
    assert checkout(tree) / "runs" == places.runs_folder()


def test_runs_from_another_users_checkout_go_to_the_callers_folder(
    shared: Path, tmp_path: Path, said: list[str]
) -> None:
    folder = places.new_folder("default")
    assert folder.parent == tmp_path / "data/tollmeter/runs"
    (line,) = said
    assert str(folder.parent) in line
    theirs = made(shared / "runs/theirs")
    (theirs.parent / places.LAST).symlink_to(theirs.name)
    assert places.find_run("theirs") == theirs
    assert places.find_run(places.LAST) == theirs, "the checkout's, while the person has none"
    assert places.run_folders() == [theirs]
    made(folder)
    places.set_last_run(folder)
    assert (folder.parent / places.LAST).resolve() == folder
    assert places.find_run(places.LAST) == folder
    assert set(places.run_folders()) == {theirs, folder}
    namesake = made(folder.parent / "theirs")
    assert places.find_run("theirs") == namesake and theirs not in places.run_folders()


def test_the_last_run_of_a_suite_is_found_by_its_name(shared: Path) -> None:
    names = ["default", "time", "default", "time"]
    folders = [made(shared / f"runs/{number}", number, suite(name)) for number, name in enumerate(names)]
    found = [places.find_run(name) for name in ("LAST:default", "LAST:default~1", "LAST:time~0")]
    assert found == [folders[2], folders[0], folders[3]]
    assert places.find_run("LAST") == folders[3], "without a link the youngest"
    with pytest.raises(Failure, match=r"default~2: 2 of them"):
        places.find_run("LAST:default~2")
    with pytest.raises(Failure, match="did you mean default"):
        places.find_run("LAST:defalt")


def test_the_last_run_is_the_last_that_has_a_wanted_probe(shared: Path) -> None:
    for number, probes in enumerate(("memory.*", "kernel.loop")):
        made(shared / f"runs/{number}", number, suite("x", probes))
    found = [places.find_run("LAST", probes=[probe]).name for probe in ("memory.latency", "kernel.*", "memory.lo*")]
    assert found == ["0", "1", "0"]
    assert places.find_run("LAST", probes=["float.dot"]).name == "1", "where no run has it, the last one says so"


@pytest.mark.parametrize(
    ("need", "found"), [("any", "commands"), ("suite", "stopped"), ("ended", "whole")], ids=lambda text: text
)
def test_the_last_run_is_the_last_of_the_kind_that_a_verb_needs(
    shared: Path, said: list[str], need: places.Need, found: str
) -> None:
    """After a run of commands and a run that Ctrl-C ended, a comparison of the last two runs found no row."""
    visit, end = '{"k":"visit","v":2}\n', '{"k":"end"}\n'
    notes = {status: f'{{"k":"run","status":"{status}"}}\n{end}' for status in ("measuring", "settled", "interrupted")}
    journals = {
        "before": visit + notes["settled"], "whole": visit + notes["measuring"] + visit + notes["settled"],
        "killed": notes["settled"] + visit, "stopped": visit + notes["interrupted"],
        "commands": visit + notes["settled"],
    }  # fmt: skip
    for number, (name, text) in enumerate(journals.items()):
        of = Suite(name=name, question="?") if name == "commands" else suite(name)
        made(shared / "runs" / name, number, of, text)
    assert places.find_run("LAST", need).name == found
    (line,) = said
    assert line.startswith("LAST is ") and found in line and ("commands" in line)
    if need == "ended":
        assert places.find_run("LAST~1", need).name == "before"
        with pytest.raises(Failure, match="2 of them"):
            places.find_run("LAST~2", need)


@pytest.mark.parametrize(
    ("read_only", "owner", "why"),
    [(True, 0, "mounted read-only"), (False, 1, "belongs to another user"), (False, 0, "is not writable")],
)
def test_why_a_checkout_cannot_keep_runs_is_what_is_true(
    shared: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], *, read_only: bool, owner: int, why: str
) -> None:
    """A read-only mount of one's own checkout was said to belong to somebody else."""
    mount = SimpleNamespace(f_flag=os.ST_RDONLY if read_only else 0)
    monkeypatch.setattr(os, "statvfs", lambda _: mount)
    monkeypatch.setattr(os, "geteuid", lambda: shared.stat().st_uid + owner)
    places.new_folder("default")
    assert why in said[0] and sum(other in said[0] for other in ("read-only", "another user", "not writable")) == 1


@pytest.mark.usefixtures("shared")
def test_a_wheel_s_runs_are_the_person_s_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tollmeter_root, "IS_CHECKOUT", False)
    assert places.runs_folder() == tmp_path / "data/tollmeter/runs"
    places.new_folder("default")
    assert not capsys.readouterr().err


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, the only one to write to, of a user id without a home folder."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).is_relative_to(tmp_path) and may(path, mode))
    tollmeter_root.have_home()
    return tmp_path


def test_without_a_home_folder_runs_are_kept_among_temporary_files(homeless: Path) -> None:
    substitute = homeless / f"tollmeter-{os.geteuid()}"
    assert Path.home() == substitute
    assert places.runs_folder().is_relative_to(substitute)
    assert substitute.stat().st_mode & 0o777 == 0o700


def test_a_home_folder_that_cannot_be_written_is_only_read(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = homeless.parent / "a home that is only read"
    monkeypatch.setenv("HOME", str(home))
    assert places.runs_folder().is_relative_to(homeless)
    (home / ".local/share/tollmeter").mkdir(parents=True)
    assert places.runs_folder() == home / ".local/share/tollmeter/runs"


def test_a_folder_that_another_user_made_is_not_used(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    (homeless / f"tollmeter-{other}").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: other)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(places, "RUNS", places.runs_folder())
    assert not places.RUNS.is_relative_to(homeless)
    with pytest.raises(Failure, match="--out"):
        places.new_folder("default")


def test_the_last_of_many_runs_is_found_without_resolving_each(
    tmp_path: Path, checkout: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        made(checkout(tmp_path) / "runs" / name)
    asked, resolve = [], Path.resolve
    monkeypatch.setattr(Path, "resolve", lambda path: asked.append(path) or resolve(path))  # type: ignore[func-returns-value]
    assert places.find_run(f"{places.LAST}~4").parent == tmp_path / "runs" and len(asked) < 5


def test_the_run_that_last_leads_to_is_found_without_a_list_of_the_others(
    tmp_path: Path, checkout: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        made(checkout(tmp_path) / "runs" / name)
    places.set_last_run(tmp_path / "runs/a")
    monkeypatch.setattr(places, "run_places", lambda: pytest.fail("all runs were listed"))
    assert places.find_run(places.LAST).name == "a"


@pytest.mark.usefixtures("own_runs")
def test_two_runs_that_begin_at_once_in_one_checkout_get_folders_of_their_own() -> None:
    """Nodes of a cluster share the checkout, and their health checks begin in the same second."""
    one, other = (asked(places.new_folder("health").name, suite("health")) for _ in range(2))
    assert one.id == other.id
    with places.new_journal(None, one, b"first\n") as first, places.new_journal(None, other, b"other\n") as second:
        assert first.folder != second.folder and first.folder.parent == second.folder.parent
    assert b"other" in (second.folder / JOURNAL).read_bytes()
    with pytest.raises(Failure, match="already holds a run"), places.new_journal(first.folder, one, b"\n"):
        pass


def test_a_misspelt_abi_is_answered_with_the_nearest() -> None:
    with pytest.raises(Failure, match="there is no ABI 'ia23'; did you mean ia32") as caught:
        places.made_ready(["ia23"], [], ProbeRequest([Select(probe="kernel.loop")]))
    assert caught.value.exit_code == 2
    elsewhere = Select(probe="kernel.loop", cpu=("vax",), abi=("vax-elf",))
    places.check_selected_abis([Select(probe="kernel.loop", abi=("native", "ia32")), elsewhere])
    with pytest.raises(Failure, match="there is no ABI 'ia23'; did you mean ia32"):
        places.check_selected_abis([Select(probe="kernel.loop", abi=("ia23",))])
