# SPDX-License-Identifier: Apache-2.0
"""Each item of a study's source is answered by a claim of its suite or by a sentence, and each claim is of an item."""

from __future__ import annotations

import re
import tomllib

from tidy.house import ROOT, hold, text, under
from tollmeter.toolchain.build import probe_names

PAGES = under("docs/sources/", ".md")
ITEM = re.compile(r"^\| (?P<item>.+?) \| (?P<answer>.+?) \|$", re.MULTILINE)


def answers(page: str) -> list[str]:
    """The second column of the table of items."""
    section = text(page).partition("\n## Items\n")[2].partition("\n## ")[0]
    return [found["answer"] for found in ITEM.finditer(section)][1:]


def claims(page: str) -> dict[str, bool]:
    """What a suite claims, and whether its tally may count it."""
    name = page.removeprefix("docs/sources/").removesuffix(".md")
    found = tomllib.loads(text(f"suites/{name}.toml"))["published"]
    return {one["what"]: one.get("relation", "shown" if "value" not in one else "") != "shown" for one in found}


def test_each_study_has_a_table_of_its_source_s_items() -> None:
    assert len(PAGES) == 5
    hold(f"{page} has no table of items" for page in PAGES if len(answers(page)) < 10)


def test_each_item_is_answered_by_a_claim_or_a_sentence() -> None:
    hold(
        f"{page}: {answer!r} is neither a claim of the suite nor a sentence"
        for page in PAGES
        for answer in answers(page)
        if answer not in claims(page) and not answer.endswith((".", "!"))
    )


def test_each_claim_that_is_judged_is_of_an_item() -> None:
    hold(
        f"{page}: no item of the source is answered by {what!r}"
        for page in PAGES
        for what, judged in claims(page).items()
        if judged and what not in answers(page)
    )


def test_each_probe_that_an_item_names_exists() -> None:
    probes = probe_names(ROOT / "probes")
    families = {name.partition(".")[0] for name in probes}
    hold(
        f"{page}: no probe is called {name}"
        for page in PAGES
        for name in re.findall(r"`([a-z]+\.[a-z_0-9]+)`", text(page))
        if name.partition(".")[0] in families and name not in probes
    )
