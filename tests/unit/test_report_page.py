# SPDX-License-Identifier: Apache-2.0
"""The page as text: it names nothing outside itself, lets nothing hostile through, and every row is in it."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from support.python_speed import within_units
from tollmeter.model import Failure, Results, Select, Suite
from tollmeter.report import overlay
from tollmeter.report import page as page_module
from tollmeter.report.numbers import of_row, of_toll
from tollmeter.report.page import island, render, write_page
from tollmeter.report.probe_sections import explain_words

MOST_BYTES = 2_000_000
MOST_MIB = 300
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Reader(HTMLParser):
    """Collects tags, scripts and styles as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.placed: list[tuple[tuple[str, ...], str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.placed.append((tuple(self.open), tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside in self.raw:
            self.raw[inside][-1] += data
        else:
            self.words.append(data)

    def policy(self) -> str:
        return next(str(a["content"]) for t, a in self.tags if t == "meta" and a.get("http-equiv"))


@functools.cache
def page_of(make: Callable[[], Results]) -> str:
    return render(make())


@functools.cache
def page_of_two(first: Callable[[], Results], second: Callable[[], Results]) -> str:
    return overlay.render(overlay.two((first(), second())))


@pytest.fixture(scope="module")
def page() -> Reader:
    return Reader(page_of(example_runs.healthy))


@pytest.fixture(scope="module")
def hostile() -> Reader:
    return Reader(page_of(example_runs.hostile))


@pytest.fixture(scope="module")
def both() -> Reader:
    """Two runs on one page."""
    return Reader(page_of_two(example_runs.small, example_runs.another_machine))


@pytest.fixture(scope="module")
def pages(page: Reader, hostile: Reader, both: Reader) -> list[Reader]:
    return [page, hostile, both, Reader(page_of_two(example_runs.hostile, example_runs.another_machine))]


def test_every_element_is_closed(pages: list[Reader]) -> None:
    assert [page.open for page in pages] == [[]] * len(pages)


def test_the_answer_comes_first(page: Reader) -> None:
    order = [
        str(a.get("id"))
        for _, a in page.tags
        if a.get("id") in ("memory", "tolls", "findings", "charts", "families", "provenance")
    ]
    assert order == ["memory", "tolls", "findings", "charts", "families", "provenance"]
    text = " ".join(page.words)
    assert (
        text.index("AMD EPYC (Zen 5)")
        < text.index("L1d ends")
        < text.index("ask an object over pipe")
        < text.index("neighbours use the rest")
    )


def test_a_group_of_the_suite_has_one_chart_that_is_open() -> None:
    results = example_runs.healthy()
    selects = (Select(probe="kernel.switch", group="scheduling"), Select(probe="kernel.*", group="entry"))
    page = Reader(render(msgspec.structs.replace(results, suite=Suite(name="kernel", question="?", select=selects))))
    below = page.placed[next(place for place, one in enumerate(page.placed) if one[2].get("id") == "families") :]
    parts = [
        (tag, str(attributes.get("id", "")))
        for inside, tag, attributes in below
        if "details" not in inside and (tag in ("details", "figure") or attributes.get("class") == "group")
    ]
    own = [tag for tag, name in parts[: [name for _, name in parts].index("family-alignment")]]
    assert own == ["h3", "figure", "details"] * 2
    charts = [str(attributes["id"]) for _, tag, attributes in page.placed if tag == "figure"]
    assert len({*charts}) == len(charts)


def test_a_remark_of_several_tolls_is_explained_once() -> None:
    """Below the table; each of their rows has a mark. What one row alone remarks stands at that row."""
    results = example_runs.small()
    said = "its work could not be verified: a short batch took {} times as long"
    first, second, third, *others = results.index.tolls
    noted = [msgspec.structs.replace(toll, note=note) for toll, note in (
        (first, said.format(2)), (second, said.format(3)), (third, "a mode: rare"))]  # fmt: skip
    text = render(example_runs.with_index(results, tolls=(*noted, *others)))
    assert text.count("its work could not be verified: each row") == 1
    assert text.count("<sup title=") == 2
    assert text.count("<small>a mode: rare</small>") == 1


def test_everything_inline_is_pinned_by_its_hash_and_nothing_else_may_run(page: Reader, both: Reader) -> None:
    for one in (page, both):
        policy = one.policy()
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy and "http" not in policy and "*" not in policy
        scripts = [text for text, (_, a) in zip(one.raw["script"], _of(one, "script"), strict=True) if "type" not in a]
        assert len(scripts) == 2 and len(one.raw["style"]) == 1
        for text in (*scripts, *one.raw["style"]):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
        assert policy.count("sha256-") == 3


OF_VISITS_OR_RATIOS = ("abi-ratios", "speed-up", "distribution", "steadiness")
"""Charts whose numbers are no rows: single visits, and one row over another."""
FIGURE = re.compile(r'class="figure">([^<]*)<span class="unit">([^<]*)</span>(?:<span class="sure">([^<]*)</span>)?')


def test_one_number_has_one_interval_in_tables_and_charts() -> None:
    """Each number of a chart, and each toll, stands with the same digits and interval in a table of the page."""
    results = example_runs.healthy()
    text = page_of(example_runs.healthy)
    in_tables = {" ".join(filter(None, figure)) for figure in FIGURE.findall(text)}
    island = next(text for text in Reader(text).raw["script"] if text.startswith("{"))
    charts = {name: chart for name, chart in json.loads(island)["charts"].items() if name not in OF_VISITS_OR_RATIOS}
    in_charts = {name: {value for data in chart["datasets"].values() if "interval" in data for value in data["value"]}
                 for name, chart in charts.items()}  # fmt: skip
    assert len(in_charts) > 10
    assert {name: values - in_tables for name, values in in_charts.items() if values - in_tables} == {}
    assert {str(of_toll(toll)) for toll in results.index.tolls} <= {str(of_row(row)) for row in results.index.rows}


def _of(reader: Reader, tag: str) -> list[tuple[str, dict[str, str | None]]]:
    return [(name, attributes) for name, attributes in reader.tags if name == tag]


def test_nothing_outside_the_page_is_named(pages: list[Reader]) -> None:
    for reader in pages:
        for tag, attributes in reader.tags:
            assert tag not in {"img", "link", "iframe", "object", "embed", "base", "form"}, tag
            assert "src" not in attributes and "style" not in attributes
            assert not any(name.startswith("on") for name in attributes)
            assert str(attributes.get("href", "#")).startswith("#")


def test_every_link_leads_somewhere(pages: list[Reader]) -> None:
    for page in pages:
        ids = [a["id"] for _, a in page.tags if a.get("id")]
        assert len(ids) == len(set(ids))
        links = [str(a["href"]) for t, a in page.tags if t == "a"]
        assert links and {link[1:] for link in links} <= set(ids)


def test_hostile_names_are_words(hostile: Reader, pages: list[Reader]) -> None:
    for reader, least in ((hostile, 10), (pages[-1], 2)):
        assert "".join(reader.words).count(example_runs.HOSTILE) > least
        assert len(_of(reader, "script")) == 3


@pytest.mark.parametrize(
    "make",
    [example_runs.healthy, example_runs.hostile, example_runs.failed, example_runs.emulated, example_runs.many_cpus],
)
def test_the_island_is_json_that_cannot_end_its_element(make: Callable[[], Results]) -> None:
    reader = Reader(page_of(make))
    text = next(t for t, (_, a) in zip(reader.raw["script"], _of(reader, "script"), strict=True) if a.get("type"))
    assert "<" not in text and ">" not in text and "\u2028" not in text
    charts = json.loads(text)["charts"]
    drawn = [a["data-chart"] for _, a in reader.tags if "data-chart" in a]
    assert sorted(charts) == sorted(str(name) for name in drawn) and charts


@pytest.mark.parametrize("value", ["</script>", "<!--", "a\u2028b", "&lt;", "\x00", "]]>"])
def test_the_island_gives_back_what_was_put_in(value: str) -> None:
    text = island({"key": [value]})
    assert json.loads(text) == {"key": [value]}
    assert not set("<>&\u2028") & set(text)


def test_every_row_with_a_number_has_a_line_and_every_other_its_reason() -> None:
    results = example_runs.failed()
    reader = Reader(page_of(example_runs.failed))
    text = " ".join(" ".join(reader.words).split())
    with_number = [row for row in results.index.rows if row.status == "ok"]
    lines = re.findall(r"(\d+) rows?\b", " ".join(w for w in reader.words if re.fullmatch(r"\s*\d+ rows?\s*", w)))
    assert sum(map(int, lines)) == len(results.index.rows)
    assert len(with_number) < len(results.index.rows)
    for reason in {row.reason for row in results.index.rows if row.reason}:
        assert reason in text


def test_each_number_names_the_command_that_explains_it() -> None:
    results = example_runs.healthy()
    text = html.unescape(page_of(example_runs.healthy))
    assert all(f'title="--explain {explain_words(row)}"' in text for row in results.index.rows if row.status == "ok")


def test_each_binary_stands_with_its_hash_and_flags(page: Reader) -> None:
    text = " ".join(page.words)
    for build in example_runs.healthy().builds:
        assert build.sha256 in text
    assert "-O2 -static -m32" in text


def test_the_command_that_measures_the_same_again_is_there(page: Reader) -> None:
    assert "toll run default --seed 4711" in " ".join(page.words)


def test_an_empty_run_has_a_page_without_scripts() -> None:
    reader = Reader(render(example_runs.empty()))
    assert [a.get("type") for _, a in _of(reader, "script")] == ["application/json"]
    assert "script-src 'none'" in reader.policy()
    assert "not complete" in " ".join(reader.words)


def test_a_page_of_a_default_run_is_small() -> None:
    results = example_runs.small()
    assert 250 <= len(results.index.rows) <= 400
    assert len(page_of(example_runs.small).encode()) < MOST_BYTES
    assert len(page_of_two(example_runs.small, example_runs.another_machine).encode()) < MOST_BYTES


def test_a_page_of_64_cpus_is_small_too() -> None:
    assert len(render(example_runs.many_cpus(64)).encode()) < MOST_BYTES
    assert (
        len(overlay.render(overlay.two((example_runs.many_cpus(32), example_runs.many_cpus(16)))).encode()) < MOST_BYTES
    )


def test_the_same_run_makes_the_same_page() -> None:
    assert page_of(example_runs.small) == render(example_runs.small())


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_page(example_runs.empty(), tmp_path / "new" / "report.html")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Failure) as failure:
        write_page(example_runs.empty(), tmp_path / "file" / "report.html")
    assert failure.value.exit_code == 5
    assert "\n" not in failure.value.sentence


def test_a_hundred_thousand_samples_are_quick_and_the_host_stays_small(tmp_path: Path) -> None:
    """In a process of its own, as a run's end is; its budget is three seconds on a quiet machine."""
    paths = os.pathsep.join(path for path in sys.path if path)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom support import example_runs\n"
        "from tollmeter.report.page import write_page\n"
        "results = example_runs.large()\nassert sum(len(o.samples) for o in results.outcomes) == 100_000\n"
        "began = time.process_time()\nwrite_page(results, Path(sys.argv[1]))\n"
        "taken = time.process_time() - began\n"
        # Not ru_maxrss: a process inherits that from the one that started it, here all of pytest.
        "print(taken, int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]) / 1024)"
    )
    page_of(example_runs.small)  # keeps the script of its charts for the next page

    def taken_s() -> float:
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "report.html")], env={**os.environ, "PYTHONPATH": paths},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        seconds, mib = map(float, done.stdout.split())
        assert mib < MOST_MIB
        return seconds

    assert within_units(40, taken_s)


def test_the_script_is_kept_for_the_next_time_and_made_again_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    text = "/* vega */" * 20_000 + "</script><!-- "

    def make() -> str:
        made.append(1)
        return text

    monkeypatch.setattr(page_module, "_drawing_script", make)
    first, second = page_module.chart_script_text(tmp_path), page_module.chart_script_text(tmp_path)
    assert first == second and len(made) == 1
    assert "</script" not in first and "<!--" not in first
    for kept in tmp_path.iterdir():
        kept.write_text("cut")
    assert page_module.chart_script_text(tmp_path) == first and len(made) == 2


def test_where_the_script_cannot_be_kept_the_page_is_still_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "build").write_text("in the way")
    monkeypatch.setattr(page_module, "_drawing_script", lambda: "x" * 200_000)
    assert page_module.chart_script_text(tmp_path / "build") == "x" * 200_000
