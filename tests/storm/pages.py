# SPDX-License-Identifier: Apache-2.0
"""Pages of runs whose every name is hostile, in Chromium: no word of theirs is run, asked for, or complained of."""

from __future__ import annotations

import functools
import random
import tempfile
from pathlib import Path
from unittest import mock

from playwright.sync_api import TimeoutError as NotDrawn

from browser.browser import Gallery, Shown, chromium
from storm.ended import Tally, awake
from support import example_runs

PARTS = (
    "</script>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "-->", "<!--",
    "<iframe srcdoc='<script>alert(1)</script>'>", "javascript:alert(1)", "]]>", "<![CDATA[", "{{7*7}}", "${alert(1)}",
    '" onmouseover="alert(1)', "' autofocus onfocus='alert(1)", "<style>@import 'http://x/'</style>", "</style>",
    "<base href=http://x/>", "<link rel=stylesheet href=http://x/>", "<meta http-equiv=refresh content=0;url=http://x/>",
    "&lt;script&gt;", "\\u003cscript\\u003e", "__proto__", "constructor", "\\", "`", "%3Cscript%3E", "<a href=http://x/>",
    "</textarea>", "</title>", "<math><mi xlink:href=javascript:alert(1)>", "\u2028", "\u0000", "<x" * 40, "\ud7ff",
)  # fmt: skip
"""Ways out of text, attributes, scripts, styles and templates."""


def storm(seed: int, count: int) -> Tally:
    tally, chance = Tally("hostile pages"), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as name, chromium() as browser:
        for number in range(count):
            hostile = "".join(chance.choices(PARTS, k=chance.randrange(1, 5)))
            gallery = Gallery(browser, Path(tempfile.mkdtemp(dir=name)))
            complaint = awake(functools.partial(_complaint, gallery, hostile, folded=number % 4 != 0))
            tally.one(f"number {number}, {hostile!r}", complaint)
    return tally


def _complaint(gallery: Gallery, hostile: str, *, folded: bool) -> str | None:
    try:
        with (
            mock.patch.object(example_runs, "HOSTILE", hostile),
            gallery.show(example_runs.hostile, folded=folded) as shown,
        ):
            return _wrong(shown)
    except NotDrawn as error:
        return f"it is not drawn: {error.message.splitlines()[0]}"


def _wrong(shown: Shown) -> str | None:
    page = shown.page
    seen = {
        "dialogs": shown.dialogs, "requests": shown.requests, "complaints": shown.complaints,
        "refused": shown.refused(),
        "elements": page.locator("img, iframe, base, link, math, body style").count() or [],
        "scripts": [] if page.locator("script").count() == 3 else "not 3",
    }  # fmt: skip
    return "; ".join(f"{what}: {found}" for what, found in seen.items() if found) or None
