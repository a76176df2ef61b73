# SPDX-License-Identifier: Apache-2.0
"""What is built is found by its files; a damaged one is named, and so is what is nearest to a misspelt name."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from support.fake_probes import tree
from tollmeter.catalog import Suites, check_unchanged, load_catalog, read_suite, unknown
from tollmeter.model import Failure, Select

ROOT = Path(__file__).resolve().parents[2]
HERE = platform.machine()


@pytest.fixture
def build(tmp_path: Path) -> Path:
    return tree(tmp_path, enter="good", loop="good") / "build"


def test_executables_are_found_with_their_description_and_hash(build: Path) -> None:
    catalog = load_catalog(build, HERE)
    assert catalog.abis == (HERE,)
    assert list(catalog.probes()) == ["kernel.enter", "kernel.loop"]
    made = catalog.executables["kernel.enter", HERE]
    assert Path(made.path).is_file()
    assert (made.build.compiler, made.build.size_bytes) == ("fake", Path(made.path).stat().st_size)
    check_unchanged(catalog.executables.values())


def test_the_machines_own_abi_comes_first(build: Path) -> None:
    (build / HERE).rename(build / "z_own")
    tree(build.parent, enter="good")
    assert load_catalog(build, HERE).abis == (HERE, "z_own")
    assert load_catalog(build, HERE).first_abi("kernel.enter") == HERE
    assert load_catalog(build, HERE).first_abi("kernel.loop") == "z_own"


def test_what_was_not_described_does_not_run_here(build: Path) -> None:
    other = build / "sparc64"
    other.mkdir()
    (other / "manifest.json").write_text('{"kernel.enter": {"sha256": "00", "size_bytes": 1}}')
    catalog = load_catalog(build, HERE)
    assert set(catalog.gaps) == {"sparc64"}
    assert not load_catalog(build, HERE, [HERE]).gaps, "only of ABIs that are asked for"
    assert ("kernel.enter", "sparc64") not in catalog.executables


def test_a_changed_executable_is_not_run(build: Path) -> None:
    catalog = load_catalog(build, HERE)
    path = Path(catalog.executables["kernel.enter", HERE].path)
    path.write_text(path.read_text() + "\n")
    with pytest.raises(Failure) as caught:
        check_unchanged(catalog.executables.values())
    assert caught.value.exit_code == 5
    assert "kernel.enter" in caught.value.sentence


@pytest.mark.parametrize("name", ["kernel.enter.describe", "manifest.json"])
def test_a_damaged_file_is_named(build: Path, name: str) -> None:
    (build / HERE / name).write_bytes(b"{")
    with pytest.raises(Failure) as caught:
        load_catalog(build, HERE)
    assert caught.value.exit_code == 5
    assert name in caught.value.sentence


def test_nothing_built_is_said(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        load_catalog(tmp_path, HERE)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    "text",
    [
        "question = 1",
        "select = []",
        'question = "?"\n[[select]]\nprob = "x"',
        'question = "?"\nselect = []\n[[published]]\nwhat = "x"\nfigure = "1"',
        "=",
        "question = " + "[" * 100_000,
    ],
)
def test_what_is_no_suite_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(Failure) as caught:
        read_suite(path)
    assert caught.value.exit_code == 2
    assert "mine.toml" in caught.value.sentence


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('others = "sweap"', ["select[0].others is 'sweap'", "known: sweep, typical"]),
        ('others = "pi\'e"', ['select[0].others is "pi\'e"', "known: sweep, typical"]),
        ('prob = "x"', ["unknown key 'prob' in select[0]", "known: probe, cpu, target"]),
        ('"x` - at `$.slect" = 1', ["unknown key 'x` - at `$.slect' in select[0]", "known: probe, cpu, target"]),
        ('"" = 1', ["unknown key '' in select[0]", "known: probe, cpu, target"]),
        (f"{'k' * 999} = 1", ["kkk' in select[0]", "known: probe, cpu, target"]),
        ('["x` - at `$.slect"]', ["unknown field `x` - at `$.slect`"]),
        ("[[figure]]\nline = [{ zzz = 1 }]", ["'zzz' in figure[0].line[0]", "known: name, row"]),
        ('[selects]\nprobe = "x"', ["unknown key 'selects'", "known: question, select"]),
        ('[[figure]]\nwhat = "t"\ndrawn = "pie"', ["figure[0].drawn is 'pie'", "known: curve, points"]),
    ],
)
def test_a_wrong_word_of_a_suite_is_answered_with_the_valid_words(tmp_path: Path, line: str, words: list[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'question = "?"\n[[select]]\nprobe = "a.*"\n{line}\n')
    with pytest.raises(Failure) as caught:
        read_suite(path)
    assert all(part in caught.value.sentence for part in ("mine.toml", *words)), caught.value.sentence


def test_text_of_a_suite_may_be_broken_over_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('question = """\nDoes it\n  hold?\n"""\n[[select]]\nprobe = "a.*"\n')
    suite = read_suite(path)
    assert (suite.name, suite.question, suite.select) == ("mine", "Does it hold?", (Select(probe="a.*"),))


def test_the_nearest_names_are_given() -> None:
    assert "memory.latency" in unknown("probe", "memory.latncy", ["kernel.loop", "memory.latency"]).sentence
    assert "kernel.loop" in unknown("probe", "\x1b[2J", ["kernel.loop"]).sentence
    assert "\x1b" not in unknown("probe", "\x1b[2J", ["kernel.loop"]).sentence


def sources() -> set[str]:
    found = [*ROOT.glob("probes/*/*.c"), *ROOT.glob("probes/*/*.cc")]
    return {f"{path.parent.name}.{path.stem}" for path in found if path.parent.name != "runtime"}


@pytest.mark.parametrize("suite", Suites(ROOT / "suites").values(), ids=lambda suite: suite.name)
def test_every_selection_of_our_suites_finds_a_probe(suite: object) -> None:
    from fnmatch import filter as matching

    from tollmeter.model import Suite

    assert isinstance(suite, Suite)
    claimed = [row.probe for claim in suite.published for row in (claim.row, claim.over) if row and row.probe]
    for pattern in [select.probe for select in suite.select] + claimed:
        assert matching(sorted(sources()), pattern), pattern


def test_a_suite_is_read_when_it_is_looked_up(tmp_path: Path) -> None:
    """A file of another suite that cannot be read stops no run."""
    (tmp_path / "good.toml").write_text('question = "?"\nselect = [{ probe = "any" }]\n')
    (tmp_path / "bad.toml").write_text("colour = 1\n")
    found = Suites(tmp_path)
    assert [*found] == ["bad", "good"] and "bad" in found and found["good"].question == "?"
    with pytest.raises(Failure, match="bad"):
        found["bad"]


def test_every_study_is_there_with_its_claims() -> None:
    ours = Suites(ROOT / "suites")
    studies = {name for name, suite in ours.items() if suite.source}
    assert studies == {"eabi-2007", "x32-2013", "rtems-2005", "speed-limits-2013", "cortex-a9-2009"}
    for name in studies:
        assert len(ours[name].published) >= 7
        assert (ROOT / "docs/sources" / f"{name}.md").is_file()
    assert not ours["default"].published


def test_a_misspelt_family_is_answered_with_its_pattern() -> None:
    known = ["kernel.loop", "kernel.wake", "memory.latency", "x32-2013"]
    assert "'kernel.*'" in unknown("suite or probe", "kernl", known).sentence
    assert "memory.latency" in unknown("suite or probe", "memory.latancy", known).sentence
