# SPDX-License-Identifier: Apache-2.0
"""A page in Chromium, with all that it did beside drawing: what it asked for, complained of, and was refused."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from tollmeter.model import Results
from tollmeter.report import overlay, page
from tollmeter.report.charts import Overlay

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DRAWN_WITHIN_MS = 60_000
WATCH = (
    "addEventListener('securitypolicyviolation', e => (window.refused ??= []).push(e.violatedDirective + e.blockedURI))"
)
OPEN = """
of => {
  for (const part of document.querySelectorAll('details')) part.open ||= part.matches(of) || !!part.querySelector(of);
}
"""


@dataclass
class Shown:
    """requests: all but the page's own file; complaints: of the console, above its information."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def refused(self) -> list[str]:
        return list(self.page.evaluate("window.refused ?? []"))

    def drawn_for(self, width: int) -> None:
        """Waits until all charts are drawn for this width of the window."""
        self.page.wait_for_selector(f'html[data-drawn-for="{width}"]', timeout=DRAWN_WITHIN_MS)

    def unfold(self, of: str) -> None:
        """Opens every part in which something matches, and waits until those charts are drawn."""
        self.page.evaluate(OPEN, of)
        undrawn = self.page.locator(of).locator(".plot:not(:has(svg))")
        undrawn.first.wait_for(state="detached", timeout=DRAWN_WITHIN_MS)
        if self.page.locator(".plot").count():
            self.page.wait_for_selector("html[data-drawn-for]", timeout=DRAWN_WITHIN_MS)

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def colours(self, selector: str, attribute: str) -> list[str]:
        """Computed values of one property of all that match."""
        code = "(all, name) => all.map(one => getComputedStyle(one)[name])"
        return list(self.page.locator(selector).evaluate_all(code, attribute))


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("these tests need Chromium: on Debian, apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Gallery:
    """Runs, and pairs of them, as pages on disk, each written once."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    def path(self, make: Callable[[], Results | Overlay]) -> Path:
        path = self._folder / f"{make.__name__}.html"
        if not path.exists():
            made = make()
            page.put(overlay.render(made) if isinstance(made, Overlay) else page.render(made), path)
        return path

    @contextlib.contextmanager
    def show(
        self,
        make: Callable[[], Results | Overlay],
        *,
        width: int = 1280,
        scheme: Literal["light", "dark"] = "light",
        scripts: bool = True,
        folded: bool = False,
        of: str = "body, details",
        **options: Any,
    ) -> Iterator[Shown]:
        """The page once all its charts are drawn. folded: as it opens, with most parts closed. of: a selector; where
        only some charts are looked at, the others, which take seconds, need not be drawn."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts, **options
        )
        try:
            shown = _watched(context.new_page())
            shown.page.goto(self.path(make).as_uri())
            if scripts and shown.page.locator(".plot").count():
                shown.drawn_for(width)
            if scripts and not folded:
                shown.unfold(of)
            yield shown
        finally:
            context.close()


def _watched(page: Page) -> Shown:
    shown = Shown(page)
    page.add_init_script(WATCH)
    page.on("request", lambda request: None if _is_own(request.url) else shown.requests.append(request.url))
    page.on(
        "console",
        lambda message: shown.complaints.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))

    def refuse(dialog: Dialog) -> None:
        shown.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    return shown


def _is_own(url: str) -> bool:
    return url.startswith("file:") and url.split("#", maxsplit=1)[0].endswith(".html")
