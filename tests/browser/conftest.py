# SPDX-License-Identifier: Apache-2.0
"""One Chromium for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser.browser import Gallery, chromium


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    with chromium() as browser:
        yield Gallery(browser, tmp_path_factory.mktemp("pages"))
