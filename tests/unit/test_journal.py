# SPDX-License-Identifier: Apache-2.0
"""A run on disk: what was flushed is kept, what is damaged is refused with its line, and one process writes."""

from __future__ import annotations

import os
import re
import resource
import signal
import time
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.probe_streams import VISIT, visit_records, whole
from tollmeter.model import Failure, Published, RowOf, Select, Suite, Surroundings, Visit
from tollmeter.protocol import outcome, seal
from tollmeter.store import journal as journal_file
from tollmeter.store import request
from tollmeter.store.journal import NAME, Journal, Session, read_journal, streams
from tollmeter.store.request import Request, read_request, start_and_words, write_request

MACHINE = {"k": "machine", "host": "h", "cpu": "c", "kernel": "k", "hypervisor": None, "cpus": 2, "memory_bytes": 9}
HEAD = seal([MACHINE])
SUITE = Suite(
    name="tiny",
    question='Does "it" hold?',
    select=(Select(probe="kernel.*", parameters={"size": (1, 2), "pages": "huge"}),),
    published=(Published(what="calls", figure="1.78 M/s", value=1.78e6, unit="op/s", row=RowOf(means="entry")),),
)
REQUEST = Request(
    id="tiny", suite=SUITE, started="2026-01-02T03:04:05Z", seed=4711, budget_seconds=30.0, tollmeter="0.1.0",
    settings={"size": (4096, "huge")},
)  # fmt: skip


def visit(number: int) -> Visit:
    return msgspec.structs.replace(VISIT, id=number)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A closed run of three visits."""
    with Journal.create(tmp_path / "run", REQUEST, HEAD) as journal:
        for number in range(3):
            journal.append(whole(visit=visit(number)))
        journal.note(Session("settled", 12.5, None))
    return tmp_path / "run"


def test_what_is_written_is_read(run: Path) -> None:
    told = read_journal(run)
    assert told.outcomes == tuple(outcome(whole(visit=visit(number))) for number in range(3))
    assert told.session == Session("settled", 12.5, visits=3)
    assert told.head.machine
    assert told.head.machine.host == "h"
    assert read_request(run) == REQUEST


def test_a_journal_cut_at_any_byte_opens_with_the_visits_before_the_cut(run: Path) -> None:
    text = (run / NAME).read_bytes()
    ends = [stream.end for stream in streams(run)]
    for cut in range(ends[0], len(text)):
        (run / NAME).write_bytes(text[:cut])
        assert len(read_journal(run).outcomes) == min(3, sum(end <= cut for end in ends[2:]))


def test_a_run_that_was_killed_is_interrupted(run: Path) -> None:
    with Journal.resume(run) as journal:
        journal.note(Session("measuring", 20.0, None))
        journal.append(whole(visit=visit(7)))
    assert read_journal(run).session.status == "interrupted"
    assert read_journal(run).session.seconds == 20.0


def test_resuming_takes_off_a_cut_stream_and_goes_on(run: Path) -> None:
    text = (run / NAME).read_bytes()
    (run / NAME).write_bytes(text + whole(9, visit=visit(3))[:-40])
    with Journal.resume(run) as journal:
        journal.append(whole(visit=visit(3)))
    assert (run / NAME).read_bytes() == text + whole(visit=visit(3))


def test_what_was_measured_is_on_disk_within_a_second_and_at_the_end(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has each visit before the next begins; the disk has them once a second, since it disturbs the next."""
    flushed: list[int] = []
    times_s = [100.0]
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(time, "monotonic", lambda: times_s[-1])
    sizes = []
    with Journal.resume(run) as journal:
        for number, now_s in enumerate((100.0, 100.5, 100.9, 101.1, 101.2), start=3):
            times_s.append(now_s)
            journal.append(whole(visit=visit(number)))
            sizes.append((run / NAME).stat().st_size)
    assert len({*sizes}) == 5
    assert flushed == [sizes[0], sizes[3], sizes[4]]


NOTE = seal([{"k": "run", "status": "settled", "seconds": 1.0, "reason": None, "visits": 4}])


@given(st.data())
def test_a_flipped_bit_loses_one_visit_at_most_and_its_line_is_reported(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    run = tmp_path_factory.mktemp("damage")
    text = bytearray(2 * HEAD + b"".join(whole(visit=visit(number)) for number in range(4)) + NOTE)
    at = data.draw(st.integers(0, len(text) - 2))
    text[at] ^= 1 << data.draw(st.integers(0, 7))
    (run / NAME).write_bytes(bytes(text))
    told = read_journal(run)
    lost = {0, 1, 2, 3} - {seen.visit for seen in told.outcomes}
    assert len(lost) <= 1
    assert told.damage or (not lost and text.count(b"\n") == bytes(text).count(b"\n"))
    assert all(re.match(r"line \d+: ", sentence) for sentence in told.damage)


def test_what_is_measured_anew_of_a_damaged_run_is_what_was_lost(run: Path) -> None:
    text = (run / NAME).read_bytes()
    (run / NAME).write_bytes(
        text.replace(whole(visit=visit(1)), whole(visit=visit(1)).replace(b"sample", b"simple", 1))
    )
    with Journal.resume(run) as journal:
        journal.append(whole(visit=visit(3)))
        journal.note(Session("settled", 13.0, None))
    told = read_journal(run)
    assert [seen.visit for seen in told.outcomes] == [0, 2, 3] and len(told.damage) == 1
    assert told.session.status == "settled"


def test_a_newline_that_was_lost_costs_nothing(run: Path) -> None:
    text = (run / NAME).read_bytes()
    end = text.index(whole(visit=visit(1)))
    (run / NAME).write_bytes(text[: end - 1] + b"\v" + text[end:])
    assert len(read_journal(run).outcomes) == 3


@pytest.mark.parametrize(
    "extra",
    [
        b"rm -rf /\n",
        b"x" * 200_000 + b"\n",
        b"\n",
        seal([*visit_records()[1:], MACHINE])[:-30] + b"}\n",
        seal([{"k": "visit", "parameters": []}]),
        seal([{"k": "run", "status": [], "seconds": "x"}]),
    ],
)
def test_a_hostile_line_is_skipped_and_reported_with_its_number(tmp_path: Path, extra: bytes) -> None:
    (tmp_path / NAME).write_bytes(HEAD + extra + whole())
    told = read_journal(tmp_path)
    assert len(told.outcomes) == 1
    assert told.damage and all(int(sentence.split()[1].rstrip(":")) >= 3 for sentence in told.damage)


def test_lines_that_begin_no_record_are_passed_over_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB of empty lines took 10 s."""
    asked, once = [], journal_file.read_next
    monkeypatch.setattr(journal_file, "read_next", lambda *of: asked.append(of) or once(*of))  # type: ignore[func-returns-value]
    (tmp_path / NAME).write_bytes(HEAD + b"\n" * 1000 + whole())
    told = read_journal(tmp_path)
    assert len(told.outcomes) == 1 and len(told.damage) == 1 and len(asked) < 100


@pytest.mark.parametrize("text", [b"", whole(), HEAD[:-5], b"\0" * 100])
def test_a_journal_without_its_machine_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / NAME).write_bytes(text)
    with pytest.raises(Failure):
        read_journal(tmp_path)


def test_a_pipe_in_place_of_a_journal_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(Failure):
        read_journal(tmp_path)


def test_a_folder_without_a_run_is_a_wrong_word(tmp_path: Path) -> None:
    for ask in (read_journal, read_request, Journal.resume):
        with pytest.raises(Failure) as caught:
            ask(tmp_path)
        assert caught.value.exit_code == 2


def test_two_writers_are_refused(run: Path) -> None:
    with Journal.resume(run), pytest.raises(Failure) as caught:
        Journal.resume(run)
    assert caught.value.exit_code == 5
    Journal.resume(run).close()


def test_a_run_is_never_overwritten(run: Path) -> None:
    before = (run / NAME).read_bytes()
    with pytest.raises(Failure) as caught:
        Journal.create(run, REQUEST, HEAD)
    assert caught.value.exit_code == 2
    assert (run / NAME).read_bytes() == before


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(Failure) as caught:
            Journal.create(folder, REQUEST, HEAD)
        assert str(folder) in caught.value.sentence


@pytest.mark.parametrize(("select", "advice"), [(REQUEST.suite.select, "run --resume"), ((), "show")])
def test_a_full_disk_keeps_what_was_measured(run: Path, select: tuple[Select, ...], advice: str) -> None:
    """A limit on the file's size refuses in the middle of a write, as a full disk does. Commands are not resumed."""
    write_request(run, msgspec.structs.replace(REQUEST, suite=msgspec.structs.replace(REQUEST.suite, select=select)))
    size = (run / NAME).stat().st_size
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Journal.resume(run) as journal:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, old[1]))
            with pytest.raises(Failure) as caught:
                journal.append(whole(visit=visit(3)))
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
            assert caught.value.exit_code == 5
            assert f"{advice} {run}" in caught.value.sentence
            assert (run / NAME).stat().st_size == size
            journal.append(whole(visit=visit(3)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, previous)
    assert len(read_journal(run).outcomes) == 4


def test_a_newer_run_is_refused_as_newer(run: Path) -> None:
    text = (run / "run.toml").read_text()
    (run / "run.toml").write_text(text.replace("format = 2", 'format = 3\nunheard_of = "x"'))
    with pytest.raises(Failure) as caught:
        read_request(run)
    assert caught.value.exit_code == 2
    assert "newer" in caught.value.sentence


@pytest.mark.parametrize(
    "text",
    [
        "=",
        "seed = 'x'",
        "a = " + "[" * 100_000,
        "suite = 1",
        "x = 1",
        "\x00",
        "# " + "x" * (2 << 20),
        "a" + ".a" * 400_000 + " = 1",
    ],
)
def test_a_damaged_request_is_refused(run: Path, text: str) -> None:
    (run / "run.toml").write_text(text)
    with pytest.raises(Failure) as caught:
        read_request(run)
    assert caught.value.exit_code == 5


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.text(st.characters(codec="utf-8"))
TABLES = st.recursive(
    st.dictionaries(TEXT, SCALARS | TEXT | st.lists(TEXT) | st.lists(st.integers(0, 9)), max_size=4),
    lambda inner: st.dictionaries(TEXT, inner | st.lists(inner, min_size=1, max_size=3), max_size=3),
    max_leaves=8,
)


def without_none(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


@given(TABLES)
def test_whatever_is_written_as_toml_is_read_back(table: dict[str, object]) -> None:
    assert tomllib.loads(request.dumps(table)) == without_none(table)


@given(TEXT)
def test_a_request_keeps_any_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("request")
    request = msgspec.structs.replace(REQUEST, words=(text,))
    write_request(folder, request)
    told = tomllib.loads((folder / "run.toml").read_text(encoding="utf-8"))
    assert told["words"] == [text]


# ---- each visit once --------------------------------------------------------------------------------------------


def renumbered(stream: bytes, number: int) -> bytes:
    records = [msgspec.json.decode(line) for line in stream.splitlines()]
    bare = [{key: value for key, value in record.items() if key not in ("n", "c")} for record in records[:-1]]
    return seal([{**bare[0], "visit": number, "at_ns": 77}, *bare[1:]])


@pytest.mark.parametrize("copies", [1, 20])
def test_a_visit_that_stands_there_twice_is_no_second_visit(run: Path, copies: int) -> None:
    with (run / NAME).open("ab") as file:
        file.write(whole(visit=visit(1)) * copies)
    with pytest.raises(Failure, match="visit 1 is in the journal twice"):
        read_journal(run)


def test_nor_is_its_copy_under_another_number(run: Path) -> None:
    once = renumbered(whole(visit=visit(3)), 3)
    with (run / NAME).open("ab") as file:
        file.write(once)
    assert len(read_journal(run).outcomes) == 4
    with (run / NAME).open("ab") as file:
        file.write(renumbered(once, 4))
    with pytest.raises(Failure, match="visit 4"):
        read_journal(run)


def test_a_visit_that_was_taken_out_is_missed(run: Path) -> None:
    text = (run / NAME).read_bytes()
    (run / NAME).write_bytes(text.replace(whole(visit=visit(1)), b""))
    with pytest.raises(Failure, match="3 visits, and 2"):
        read_journal(run)


def test_a_run_that_is_gone_on_with_counts_on(run: Path) -> None:
    with Journal.resume(run) as journal:
        journal.append(whole(visit=visit(3)))
        journal.note(Session("settled", 13.0, None))
    assert len(read_journal(run).outcomes) == 4


def test_a_run_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(Failure, match="Nothing was measured yet") as told:
            Journal.create(tmp_path / "run", REQUEST, HEAD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "--resume" not in str(told.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["nice", "policy", "throttled_s", "others", "company", "left_behind", "traced"])
def test_surroundings_that_lack_a_key_name_what_is_unknown(run: Path, key: str) -> None:
    seen = msgspec.to_builtins(Surroundings(others=0.0, seccomp_filters=0, traced=False))
    with Journal.resume(run) as journal:
        journal.note(Session("settled", 1.0, None, msgspec.convert(seen, Surroundings)))
    whole_note = read_journal(run).session.surroundings
    assert whole_note and whole_note.unreadable == ()
    del seen[key]
    note = {"k": "run", "status": "settled", "seconds": 1.0, "reason": None, "surroundings": seen}
    (run / NAME).write_bytes((run / NAME).read_bytes() + seal([note]))
    lacking = read_journal(run).session.surroundings
    assert lacking and len(lacking.unreadable) == 1


def test_a_journal_is_not_gone_on_with_through_a_link(run: Path, tmp_path: Path) -> None:
    (run / NAME).rename(tmp_path / "elsewhere")
    (run / NAME).symlink_to(tmp_path / "elsewhere")
    assert len(read_journal(run).outcomes) == 3
    with pytest.raises(Failure, match="cannot write"):
        Journal.resume(run)


def test_runs_are_listed_by_the_first_lines_of_their_requests(tmp_path: Path) -> None:
    suite = '[suite]\nname = "s"\n'
    for number, text in enumerate(
        (
            f'started = "a"\nwords = []\n\n{suite}',
            f'started = "a"\nwords = ["kernel.*", "call=x"]\n\n{suite}',
            "started = 'a'\nno toml",
            f'started = "a"\nwords = [1]\n\n{suite}',
        )
    ):
        (folder := tmp_path / str(number)).mkdir()
        (folder / "run.toml").write_text(text)
    assert start_and_words(tmp_path / "0") == ("a", "s")
    assert start_and_words(tmp_path / "1") == ("a", "'kernel.*' call=x")
    for damaged in ("2", "3"):
        with pytest.raises(Failure, match="damaged"):
            start_and_words(tmp_path / damaged)
