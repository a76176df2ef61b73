# SPDX-License-Identifier: Apache-2.0
"""Pages beside that of one run in Chromium, drawn in peace: two runs, the gallery, the map of a fleet; and axe-core's
judgement of pages, light and wide, dark and on a phone, as they open."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Locator, Page

from browser.browser import WATCH, Gallery
from browser.test_page_in_chromium import check_peace
from support import example_runs
from tollmeter.fleet.gallery import single_page, write_site
from tollmeter.fleet.judged import HardwareModel, judged_model
from tollmeter.fleet.published import Loaded, PublishedRun
from tollmeter.fleet.publishing import publish
from tollmeter.fleet.report import page
from tollmeter.model import Row
from tollmeter.report import overlay
from tollmeter.report.charts import Overlay
from tollmeter.report.numbers import size_of_level

pytestmark = pytest.mark.browser

# ---- two runs -------------------------------------------------------------------------------------------------------

FADED = "(all) => all.filter(one => Number(one.getAttribute('opacity') ?? 1) < 0.5).length"


def two() -> Overlay:
    return overlay.two((example_runs.small(), example_runs.another_machine()))


def beside_hostile() -> Overlay:
    return overlay.two((example_runs.hostile(), example_runs.another_machine()))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_every_chart_of_two_runs_is_drawn_in_peace(
    gallery: Gallery, width: int, scheme: Literal["light", "dark"]
) -> None:
    with gallery.show(two, width=width, scheme=scheme) as shown:
        check_peace(shown)
        assert shown.overflow() <= 0
        outside = "(all, width) => all.filter(one => one.getBoundingClientRect().right > width).length"
        assert shown.page.locator(".plot .mark-text.role-legend-label text").evaluate_all(outside, width) == 0


def test_a_run_that_is_chosen_in_the_legend_stands_alone_and_so_does_a_series(gallery: Gallery) -> None:
    with gallery.show(two, of="#chart-latency") as shown:
        plot = shown.page.locator("#chart-latency .plot")
        lines = plot.locator(".mark-line path")
        assert lines.count() == 6 and _faded(lines) == 0
        plot.locator(".role-legend-label text", has_text="B ·").click(force=True)
        assert _faded(lines) == 3
        plot.locator(".role-legend-label text", has_text="huge pages").click(force=True)
        assert _faded(lines) == 5
        assert shown.complaints == []


def _faded(lines: Locator) -> int:
    return int(lines.evaluate_all(FADED))


def test_hostile_names_of_a_run_are_text(gallery: Gallery) -> None:
    with gallery.show(beside_hostile) as shown:
        check_peace(shown)
        assert example_runs.HOSTILE in shown.page.locator("h1").inner_text()
        assert example_runs.HOSTILE in str(shown.page.locator("#chart-latency svg").text_content())


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_rule_of_axe_is_broken_by_two_runs(gallery: Gallery, width: int, scheme: Literal["light", "dark"]) -> None:
    with gallery.show(two, width=width, scheme=scheme, folded=True, bypass_csp=True) as shown:
        assert violations(shown.page) == []


# ---- a page as axe-core judges it -----------------------------------------------------------------------------------

AXE = files("axe_playwright_python") / "axe.min.js"
ONLY = "{resultTypes: ['violations']}"
"""Every rule is tried; the thousands of elements that break none are neither described nor brought here."""


def violations(page: Any) -> list[str]:
    """The rule that is broken and where, of the first few places."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(f"axe.run({ONLY}).then(found => found.violations)")
    return [f"{one['id']}: {[node['target'] for node in one['nodes'][:4]]} {len(one['nodes'])}" for one in found]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_rule_of_axe_is_broken(gallery: Gallery, width: int, scheme: str) -> None:
    with gallery.show(example_runs.small, width=width, scheme=scheme, folded=True, bypass_csp=True) as shown:  # type: ignore[arg-type]
        assert violations(shown.page) == []


def test_what_a_reader_opened_and_sought_stays_when_the_page_comes_anew(gallery: Gallery) -> None:
    """As that of a run that is measured does, every few seconds."""
    with gallery.show(example_runs.healthy, folded=True) as shown:
        page = shown.page
        page.locator("details.sureness summary").click()
        opened = "[...document.querySelectorAll('details')].map(part => part.open)"
        page.locator("#search").fill("nowhere")
        before = page.evaluate(opened)
        page.reload()
        assert page.evaluate(opened) == before and before[0]
        assert page.locator("#search").input_value() == "nowhere"
        assert page.locator("#found").inner_text() == "0 found"
        assert shown.complaints == [] and shown.refused() == []


# ---- the gallery, from a disk ---------------------------------------------------------------------------------------


def machines() -> list[PublishedRun]:
    first, second = (
        replace(publish(results), load=tuple(Loaded("reads", 1e9 * at, 90.0 + at**2) for at in range(5)))
        for results in (example_runs.small(), example_runs.another_machine())
    )
    hostile = replace(first.index, machine=replace(first.index.machine, cpu=example_runs.HOSTILE))
    return [first, second, replace(first, id="0" * 12, index=hostile)]


def opened(browser: Browser, url: str, width: int = 1280) -> tuple[Page, list[str]]:
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.add_init_script(WATCH)
    page.goto(url)
    return page, complaints


@pytest.mark.parametrize("width", [1280, 390])
def test_machines_are_filtered_chosen_and_seen_side_by_side(browser: Browser, tmp_path: Path, width: int) -> None:
    some = machines()
    write_site(some, tmp_path)
    page, complaints = opened(browser, (tmp_path / "index.html").as_uri(), width)
    assert page.locator("#machines tbody tr").count() == 3
    assert (
        "memory latency" in page.locator("#machines").text_content() and "ns" in page.locator("#machines").inner_text()
    )
    page.locator("#filter").fill("another 9000")
    assert page.locator("#machines tbody tr").count() == 1
    page.locator("#filter").fill("")
    for at in (0, 1):
        page.locator("#machines input").nth(at).check()
    page.locator("#beside").click()
    page.wait_for_selector("#shown table >> nth=2")
    assert page.url.endswith(f"#{some[0].id},{some[1].id}")
    assert page.locator("#shown canvas").count() >= 1 and page.locator("#shown svg path").count() >= 1
    assert "B / A" in page.locator("#shown thead").last.inner_text()
    assert [one.split()[0] for one in page.locator("#shown > .legend").first.inner_text().splitlines()] == ["A", "B"]
    level = some[0].index.hierarchy[0]
    assert (
        page.locator("#shown table >> nth=1").locator("td").first.inner_text().split()
        == str(size_of_level(level)).split()
    )
    assert page.locator(".shades i").count() == 7
    cut = "one => one.scrollWidth - one.clientWidth"
    assert page.evaluate(f"[...document.querySelectorAll('#shown .scroll')].map({cut}).filter(Boolean)") == []
    assert page.locator("svg[aria-label='Latency of a load by size'] path").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert page.evaluate("window.refused ?? []") == [] and complaints == []


def test_an_address_shows_one_machine_and_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    write_site(machines(), tmp_path)
    page, complaints = opened(browser, (tmp_path / "index.html").as_uri() + f"#{'0' * 12}")
    page.wait_for_selector("#shown table")
    assert example_runs.HOSTILE in page.locator("h1").inner_text()
    page.goto((tmp_path / "index.html").as_uri() + "#ffffffffffff")
    page.wait_for_selector("#shown .status")
    assert [one for one in complaints if "ERR_FILE_NOT_FOUND" not in one] == []


def test_one_page_of_several_machines_needs_no_other_file(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "machines.html"
    path.write_text(single_page(machines(), ["one", "two", "three"]))
    page, complaints = opened(browser, path.as_uri())
    page.wait_for_selector("#shown table >> nth=2")
    shown = page.locator("#shown").inner_text()
    assert "C / A" in shown and "three" in shown
    assert page.evaluate("window.refused ?? []") == [] and complaints == []


# ---- two thousand nodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 390])
def test_the_map_of_two_thousand_nodes_is_drawn_and_names_its_cells(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    chance = np.random.default_rng(1)
    like = Row(
        probe="memory.latency", revision=1, abi="x86_64", target="local", clock="hardware", parameters={},
        metric="load", unit="ns", better="less", status="ok",
    )  # fmt: skip
    rows = [msgspec.structs.replace(like, parameters={"size": at}) for at in range(700)]
    values = (3 + 0.01 * chance.normal(size=(700, 2000))).astype(np.float32)
    values[:, 1234] += 0.08
    model = HardwareModel("a model", [f"node{at}" for at in range(2000)], rows, values, np.full_like(values, 0.02))
    path = tmp_path / "fleet.html"
    path.write_text(page([judged_model(model)]).decode())
    shown = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.add_init_script(WATCH)
    shown.goto(path.as_uri())
    canvas = shown.locator("canvas")
    assert canvas.evaluate("one => [one.width, one.height]") == [2000, 700]
    assert shown.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    canvas.focus()
    canvas.press("ArrowDown")
    told = shown.locator(".cell").inner_text()
    assert told.startswith("node1234, memory.latency load size=1: ") and "% slower or more" in told
    shown.locator(".filter").fill("node77")
    assert canvas.evaluate("one => one.width") == 11
    assert shown.evaluate("window.refused ?? []") == [] and complaints == []
