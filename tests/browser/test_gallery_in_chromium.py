# SPDX-License-Identifier: Apache-2.0
"""The gallery in Chromium, from a disk: list, filter, one machine, several side by side, and addresses of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page

from browser.browser import WATCH
from support import example_runs
from tollmeter.fleet.gallery import single_page, write_site
from tollmeter.fleet.published import Loaded, PublishedRun
from tollmeter.fleet.publishing import publish
from tollmeter.report.numbers import size_of_level

pytestmark = pytest.mark.browser


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
