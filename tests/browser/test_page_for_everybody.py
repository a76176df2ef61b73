# SPDX-License-Identifier: Apache-2.0
"""The page as axe-core judges it: light and wide, dark and on a phone, as it opens."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from browser.browser import Gallery
from support import example_runs

pytestmark = pytest.mark.browser

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
