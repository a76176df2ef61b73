# SPDX-License-Identifier: Apache-2.0
"""A journal of 1 GB is read in little memory: its samples are in a temporary file, and say what they say in memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from bench.journal import MEGABYTE, make

from tollmeter.experiment import taken as reading
from tollmeter.library.derive import open_run
from tollmeter.model import Room, samples
from tollmeter.numbers import rows
from tollmeter.protocol import Outcomes
from tollmeter.store.journal import streams

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/recordings/format-2"
MOST_BYTES_A_VISIT = 3000
"""Of memory, for a visit of a dozen samples: it takes 2,100, and 3,800 where all that was read is kept."""
READ = """
import resource, sys
from pathlib import Path
from tollmeter.library.derive import open_run
from tollmeter.experiment import consistency, taken
from tollmeter.model import samples
from tollmeter.numbers import rows
samples._MOST_IN_MEMORY = 0
taken._AT_ONCE, rows.MANY_VISITS, consistency.MANY_VISITS = 128, 256, 128
results = open_run(Path(sys.argv[1]))
print(len(results.outcomes), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
"""


def needs(run: Path) -> tuple[int, int]:
    """Visits of a run, and bytes of memory that opening it takes."""
    done = subprocess.run([sys.executable, "-c", READ, str(run)], capture_output=True, text=True, check=True, cwd=ROOT)
    visits, size = done.stdout.split()
    return int(visits), int(size)


def test_memory_grows_little_with_each_visit(tmp_path: Path) -> None:
    for name, size in (("small", 10), ("large", 30)):
        make(RECORDED, tmp_path / name, size * MEGABYTE)
    small, large = needs(tmp_path / "small"), needs(tmp_path / "large")
    assert large[0] > 2 * small[0]
    assert large[1] - small[1] < MOST_BYTES_A_VISIT * (large[0] - small[0])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    make(RECORDED, tmp_path / "run", MEGABYTE)
    return tmp_path / "run"


@pytest.fixture
def in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are written to a temporary file, and one block of it is kept in memory."""
    monkeypatch.setattr(samples, "_MOST_IN_MEMORY", 0)
    for module in (samples, reading):
        monkeypatch.setattr(module, "RECENT", 1)


def told(run: Path) -> tuple[bytes, bytes]:
    (run / "index.sqlite").unlink(missing_ok=True)
    results = open_run(run)
    return msgspec.json.encode(results.index), msgspec.json.encode([[*visit.samples] for visit in results.outcomes])


def test_samples_in_a_file_say_what_they_say_in_memory(run: Path, request: pytest.FixtureRequest) -> None:
    expected = told(run)
    request.getfixturevalue("in_a_file")
    assert told(run) == expected


@pytest.mark.usefixtures("in_a_file")
def test_a_block_of_the_file_is_read_a_few_times_and_not_for_each_column(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two dozen columns of each block are used, and a point's samples are in all blocks of its probe."""
    taken, take, read = Counter[str](), samples.Room.take, samples.Room._read

    def counted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        return lambda *args: (taken.update([name]), call(*args))[1]

    monkeypatch.setattr(samples.Room, "take", counted("written", take))
    monkeypatch.setattr(samples.Room, "_read", counted("read", read))
    open_run(run)
    assert 0 < taken["read"] <= 8 * taken["written"]


def test_points_that_are_derived_one_by_one_say_what_they_say_together(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = told(run)
    monkeypatch.setattr(rows, "MANY_VISITS", 1)
    assert told(run) == expected


def test_where_no_file_can_be_made_they_stay_in_memory(
    run: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = told(run)
    request.getfixturevalue("in_a_file")

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert told(run) == expected


def test_a_stream_that_is_decoded_at_once_says_what_its_records_say(tmp_path: Path) -> None:
    run = Path(shutil.copytree(RECORDED, tmp_path / "run"))
    visits = [stream for stream in streams(run) if stream.is_visit]
    together, alone = Outcomes(Room()), Outcomes()
    assert [together.of_text(one.text) for one in visits] == [alone.of(one.lines) for one in visits]
