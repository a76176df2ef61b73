# SPDX-License-Identifier: Apache-2.0
"""What `toll serve` and `toll show --follow` show of runs, to whom, and that neither touches one."""

from __future__ import annotations

import fcntl
import html
import http.client
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from support import example_runs
from support.waiting import LONG_S
from tollmeter.cli import watching
from tollmeter.library import serving
from tollmeter.library.derive import open_index, open_run
from tollmeter.model import Failure
from tollmeter.report.numbers import numbers_of
from tollmeter.report.page import render
from tollmeter.report.tables import cpu_of
from tollmeter.store.journal import NAME, Tail, is_written

RECORDED = Path(__file__).parents[1] / "recordings" / "format-2"


@pytest.fixture
def run(tmp_path: Path, checkout: Callable[[Path], Path]) -> Path:
    """A recorded run as runs/recorded."""
    folder = checkout(tmp_path) / "runs" / "recorded"
    folder.mkdir(parents=True)
    recorded = next(path.parent for path in sorted(RECORDED.rglob(NAME)))
    for file in (NAME, "run.toml"):
        (folder / file).write_bytes((recorded / file).read_bytes())
    return folder


@pytest.fixture
def server(run: Path) -> Iterator[serving.Server]:
    assert run.is_dir()
    with serving.Server(0) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def asked(server: serving.Server, path: str, method: str = "GET", host: str = "") -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection(serving.LOOPBACK, server.server_port, timeout=LONG_S)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    told = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return told


def test_the_list_leads_to_each_run_and_its_page(server: serving.Server, run: Path) -> None:
    before = {path: path.read_bytes() for path in run.iterdir()}
    status, listed, _ = asked(server, f"/{server.token}/")
    assert status == 200 and f'href="{run.name}"' in listed
    index = open_index(run)
    shown = [cpu_of(index.machine), numbers_of(index)["call"], "system call"]
    assert all(word in html.unescape(listed) for word in shown)
    status, page, headers = asked(server, f"/{server.token}/{run.name}")
    assert status == 200 and page.startswith("<!doctype html>") and 'id="provenance"' in page
    assert 'href="./"' in page and 'href="./"' not in render(open_run(run)), "back to the list, where there is one"
    assert "Refresh" not in headers and headers["Cache-Control"] == "no-store"
    assert {path: path.read_bytes() for path in before} == before
    assert not (run / "report.html").exists()
    assert asked(server, "/favicon.ico")[:2] == (204, "")


def test_requests_without_the_token_or_with_another_host_name_are_refused(server: serving.Server, run: Path) -> None:
    for path in ("/", "/x/", f"/x/{run.name}", f"/{server.token[:-1]}/", f"/{run.name}"):
        status, body, _ = asked(server, path)
        assert (status, run.name in body) == (404, False), path
    status, body, _ = asked(server, f"/{server.token}/", host="evil.example")
    assert (status, run.name in body) == (403, False)
    for name in ("..%2F..%2Fetc%2Fpasswd", "../recorded/run.toml", "none"):
        assert asked(server, f"/{server.token}/{name}")[0] == 404


def test_it_listens_on_the_loopback_alone_and_only_reads(server: serving.Server, run: Path) -> None:
    assert server.server_address[0] == "127.0.0.1"
    for method in ("POST", "PUT", "DELETE"):
        assert asked(server, f"/{server.token}/{run.name}", method)[0] == 501
    with pytest.raises(Failure) as failure:
        serving.Server(server.server_port)
    assert failure.value.exit_code == 5


def test_a_list_is_of_a_part_of_many_runs_and_waits_for_no_page(
    server: serving.Server, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 runs took 40 s to list, at each request, and after every page that was asked for before."""
    opened: list[Path] = []
    monkeypatch.setattr(serving, "LISTED", 2)
    monkeypatch.setattr(serving.places, "run_places", lambda: [(run.parent, f"r{at}") for at in range(5)])
    listed = {"opens": False, "cells": ["not read"]}
    monkeypatch.setattr(serving, "_listed_run", lambda folder: opened.append(folder) or {"name": folder.name, **listed})
    parts = [asked(server, f"/{server.token}/?from={begin}")[1] for begin in ("0", "3", "4", "x", "99")]
    assert [re.findall("<td>(r[0-9])", part) for part in parts] == [
        ["r4", "r3"], ["r2", "r1"], ["r0"], ["r4", "r3"], ["r4", "r3"],
    ]  # fmt: skip
    assert ["from=2" in part for part in parts] == [True, False, True, True, True] and len(opened) == 9
    with server._making:
        assert asked(server, f"/{server.token}/")[1] == parts[0]


def test_a_run_that_is_measured_is_renewed(server: serving.Server, run: Path) -> None:
    with (run / NAME).open("r+b") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        assert is_written(run / NAME)
        _, listed, headers = asked(server, f"/{server.token}/")
        assert "measuring now" in listed and headers["Refresh"] == str(serving.RENEW_S)
        assert asked(server, f"/{server.token}/{run.name}")[2]["Refresh"] == str(serving.RENEW_S)
    assert not is_written(run / NAME)
    _, listed, headers = asked(server, f"/{server.token}/")
    assert "measuring now" not in listed and "Refresh" not in headers


def test_a_run_that_is_measured_says_for_how_long(run: Path) -> None:
    lines = (run / NAME).read_bytes().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if line.startswith(b'{"k":"end"')]
    assert not any(line.startswith(b'{"k":"run"') for line in lines) and len(ends) > 4
    so_far = []
    for last in (ends[len(ends) // 2], ends[-1]):
        (run / NAME).write_bytes(b"".join(lines[: last + 1]))
        so_far.append(open_run(run).index.run.seconds)
    assert 0 < so_far[0] < so_far[1]


def test_a_damaged_run_is_a_sentence_and_not_the_end(server: serving.Server, run: Path) -> None:
    (run / "run.toml").write_text("format = 99")
    assert asked(server, f"/{server.token}/{run.name}")[0] == 500
    assert asked(server, f"/{server.token}/")[0] == 200


def test_two_runs_that_are_ticked_in_the_list_are_one_page(
    server: serving.Server, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = run.with_name("other run")
    shutil.copytree(run, other)
    (other / "run.toml").write_text((other / "run.toml").read_text().replace("4711", "4712"))
    monkeypatch.setattr(serving, "open_two", lambda _: (example_runs.small(), example_runs.another_machine()))
    _, listed, _ = asked(server, f"/{server.token}/")
    ticked = re.findall(r'<input type="checkbox" name="run" value="([^"]+)"', listed)
    assert sorted(ticked) == ["other run", run.name] and "<form>" in listed
    status, page, headers = asked(server, f"/{server.token}/?{urlencode([('run', name) for name in ticked])}")
    assert status == 200 and 'id="side-a"' in page and 'id="side-b"' in page and "Refresh" not in headers
    with (other / NAME).open("r+b") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        query = urlencode([("run", name) for name in ticked])
        assert asked(server, f"/{server.token}/?{query}")[2]["Refresh"] == str(serving.RENEW_S)


def test_what_makes_no_pair_is_a_sentence(server: serving.Server, run: Path) -> None:
    """These two have too few points for a chart."""
    other = run.with_name("other")
    shutil.copytree(run, other)
    (other / "run.toml").write_text((other / "run.toml").read_text().replace("4711", "4712"))
    for names, status in (([run.name] * 2, 400), ([run.name, "other"], 400), ([run.name, "other", run.name], 400),
                          ([run.name, "none"], 404)):  # fmt: skip
        told = asked(server, f"/{server.token}/?{urlencode([('run', name) for name in names])}")
        assert told[0] == status and told[1].count("\n") == 1 and "<" not in told[1], told
    assert asked(server, f"/{server.token}/?run={run.name}")[1].startswith("<!doctype html>")


def test_two_browsers_at_once_have_their_lists_one_after_the_other(
    server: serving.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, met = threading.Lock(), []

    def opened(folder: Path) -> object:
        met.append(not alone.acquire(blocking=False))
        time.sleep(0.05)
        alone.release()
        return open_index(folder)

    open_index = serving.open_index
    monkeypatch.setattr(serving, "open_index", opened)
    browsers = [threading.Thread(target=asked, args=(server, f"/{server.token}/")) for _ in range(2)]
    for browser in browsers:
        browser.start()
    for browser in browsers:
        browser.join()
    assert met == [False, False]


def test_a_tail_gives_each_stream_once_and_no_half(run: Path, tmp_path: Path) -> None:
    whole = (run / NAME).read_bytes()
    growing = tmp_path / "growing"
    growing.mkdir()
    (growing / NAME).write_bytes(b"")
    tail, seen = Tail(growing), []
    for end in range(0, len(whole) + 1, max(1, len(whole) // 7)):
        (growing / NAME).write_bytes(whole[:end])
        seen += [stream.text for stream in tail.new_streams()]
    (growing / NAME).write_bytes(whole)
    seen += [stream.text for stream in tail.new_streams()]
    assert seen == [stream.text for stream in Tail(run).new_streams()] and len(seen) > 2
    assert [*tail.new_streams()] == []


def test_a_tail_gives_a_stream_before_it_reads_the_next(run: Path) -> None:
    """A run of 1 GB took 2 GB to follow."""
    tail, several = Tail(run), [stream.end for stream in Tail(run).new_streams()]
    assert next(tail.new_streams()).end == several[0]
    assert [stream.end for stream in tail.new_streams()] == several[1:]


def test_following_shows_the_visits_of_a_run_that_is_written(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_written = iter([True, True, False])
    monkeypatch.setattr(Tail, "is_written", lambda _: next(is_written))
    monkeypatch.setattr(watching, "LOOK_EVERY_S", 0.0)
    watching.follow(run)
    assert " left  kernel." in capsys.readouterr().err


def test_following_a_run_that_has_ended_reads_none_of_its_visits(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The 25 s that this took for 1 GB showed a progress that was over."""
    watching.follow(run)
    assert "suite" in (said := capsys.readouterr().err) and " left" not in said
    with pytest.raises(Failure):
        watching.follow(run.parent)
