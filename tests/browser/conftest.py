# SPDX-License-Identifier: Apache-2.0
"""One Chromium for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from browser.browser import Gallery, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def gallery(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return Gallery(browser, tmp_path_factory.mktemp("pages"))
