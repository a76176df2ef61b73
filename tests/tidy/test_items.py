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


METRICS = re.compile(r"metrics\[\] = \{(.*?)\{0\}\}", re.DOTALL)


def has_one_metric(probe: str) -> bool:
    path = f"probes/{probe.replace('.', '/')}"
    source = text(next(name for name in under("probes/", ".c", ".cc") if name.startswith(f"{path}.c")))
    found = METRICS.search(source)
    return found is not None and found[1].count(".name = ") == 1 and "METRIC" not in found[1]


def test_a_claim_of_a_probe_with_several_metrics_names_its_own() -> None:
    """One without was a ratio of two bandwidths, and of a share of huge pages to a bandwidth: 0.000000 to 0.93."""
    rows = [
        (page, claim["what"], row)
        for page in PAGES
        for claim in tomllib.loads(text(f"suites/{page[13:-3]}.toml"))["published"]
        for row in (claim.get("row"), claim.get("over"), *claim.get("order", ()))
        if row and "probe" in row and not {"metric", "means"} & {*row}
    ]
    assert rows
    hold(f"{page}: {what!r} does not say which metric" for page, what, row in rows if not has_one_metric(row["probe"]))


def test_each_probe_that_an_item_names_exists() -> None:
    probes = probe_names(ROOT / "probes")
    families = {name.partition(".")[0] for name in probes}
    hold(
        f"{page}: no probe is called {name}"
        for page in PAGES
        for name in re.findall(r"`([a-z]+\.[a-z_0-9]+)`", text(page))
        if name.partition(".")[0] in families and name not in probes
    )
