# SPDX-License-Identifier: Apache-2.0
"""The page where it is read: in a browser, light and dark, on a phone, printed, and with everything hostile in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from browser.browser import Gallery, Shown
from support import example_runs, study_run
from tollmeter.model import Results
from tollmeter.report.chart_style import DARK, LIGHT
from tollmeter.report.tolls import MOST_TICKS

pytestmark = pytest.mark.browser

MOST_PIXELS = 12_000
PAPER = 673
"""A4 less margins of 16 mm, at 96 pixels an inch."""
LEAST_GAP = 20

RATIO_OF = "path[aria-label$='times as fast: {1}; series: {0}']"
MARKS = "svg [class*='mark-'][role='graphics-object'] :is(path, line, text)"


def check_peace(shown: Shown, of: str = "body") -> None:
    """Every chart of a part has marks, no text became a picture; nothing was asked for, refused or complained of."""
    code = "(all, marks) => all.filter(one => !one.querySelector(marks)).map(one => one.dataset.chart)"
    assert shown.page.locator(of).locator(".plot").evaluate_all(code, MARKS) == []
    assert shown.page.evaluate("document.images.length") == 0
    assert shown.dialogs == []
    assert shown.complaints == []
    assert shown.refused() == []
    assert shown.requests == []


@pytest.mark.parametrize("make", [example_runs.emulated, example_runs.empty, study_run.study])
def test_every_chart_is_drawn_in_peace(gallery: Gallery, make: Callable[[], Results]) -> None:
    """Those of the other runs are, too, where their pages are drawn at every width."""
    with gallery.show(make) as shown:
        check_peace(shown)


def test_a_line_has_all_its_points(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, of="#chart-latency") as shown:
        rows = [r for r in example_runs.healthy().index.rows if r.probe == "memory.latency" and r.abi == "x86_64"]
        targets = shown.page.locator("#chart-latency svg .mark-symbol.role-mark path[opacity='0']")
        assert targets.count() == len(rows)


def test_another_line_can_be_chosen_for_all_to_be_over(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, of="#chart-speed-up") as shown:
        plot = shown.page.locator("#chart-speed-up .plot")
        chooser = plot.locator("select")
        assert chooser.input_value() == "ia32"
        expect(plot.locator(RATIO_OF.format("ia32", 1)).first).to_be_attached()
        expect(plot.locator(RATIO_OF.format("x86_64", 1))).to_have_count(0)
        chooser.select_option("x86_64")
        expect(plot.locator(RATIO_OF.format("x86_64", 1)).first).to_be_attached()
        expect(plot.locator(RATIO_OF.format("ia32", 1))).to_have_count(0)
        assert shown.complaints == []
        assert shown.refused() == []


def test_hostile_names_are_text(gallery: Gallery) -> None:
    """Of all charts, where the page is drawn at every width; of one, what a tip says."""
    with gallery.show(example_runs.hostile, of="#chart-latency") as shown:
        page = shown.page
        assert shown.dialogs == []
        assert page.evaluate("document.images.length") == 0
        assert page.evaluate("document.querySelectorAll('script').length") == 3
        assert example_runs.HOSTILE in page.locator("h1").inner_text()
        assert example_runs.HOSTILE in page.locator("#chart-latency svg").text_content()  # type: ignore[operator]
        target = page.locator("#chart-latency svg path[opacity='0']").last
        target.hover(force=True)
        assert page.locator(".tip").is_visible()
        assert page.evaluate("document.images.length") == 0


EDGES = "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"
WIDTHS = (1280, 1920, 1180, 768, 320)


@pytest.mark.parametrize(
    ("make", "widths", "of"),
    [
        (example_runs.healthy, WIDTHS, "body, details"),
        (study_run.study, (390,), "body, details"),
        (example_runs.hostile, (768, 320), "body, details"),
        (example_runs.failed, (768,), "body, details"),
        (example_runs.many_cpus, (1280, 768, 320), "#chart-core-to-core"),
    ],
)
def test_the_page_never_scrolls_sideways(
    gallery: Gallery, make: Callable[[], Results], widths: tuple[int, ...], of: str
) -> None:
    """Some rows less, or more cells of one chart, need not be drawn at each width again."""
    with gallery.show(make, width=widths[0], of=of) as shown:
        check_peace(shown, of)
        for width in widths:
            shown.page.set_viewport_size({"width": width, "height": 900})
            shown.drawn_for(width)
            assert shown.overflow() <= 0, width
            edges = shown.page.locator(".plot svg").evaluate_all(EDGES)
            assert edges and max(right for _, right in edges) <= width + 1, width
            words = shown.page.locator(".plot svg text:visible").evaluate_all(EDGES)
            assert max(right for _, right in words) <= width + 1, width
        assert shown.complaints == []


@pytest.mark.parametrize("make", [example_runs.healthy, study_run.study])
def test_on_a_phone_no_label_is_cut_and_no_column_of_an_answer_out_of_sight(
    gallery: Gallery, make: Callable[[], Results]
) -> None:
    """What was published stood in a column beyond the edge."""
    with gallery.show(make, width=390, is_mobile=True, has_touch=True) as shown:
        cut = shown.page.locator(".plot svg text", has_text="\N{HORIZONTAL ELLIPSIS}")
        assert cut.all_text_contents() == []
        wider = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)"
        answer = shown.page.locator(".scroll:has(> .answer):not(.section *)")
        assert answer.count() and answer.evaluate_all(wider) == []


MIDDLES = "all => all.map(one => one.getBoundingClientRect()).map(box => (box.top + box.bottom) / 2)"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_dot_stands_with_its_label(gallery: Gallery, width: int) -> None:
    """On its line where there is room; else under it, with a rule before the next."""
    with gallery.show(example_runs.small, width=width, of="#chart-core-to-core") as shown:
        chart = shown.page.locator("#chart-core-to-core svg")
        labels, dots, rules = (sorted(chart.locator(marks).evaluate_all(MIDDLES))
                               for marks in (LABELS, DOTS, RULES))  # fmt: skip
        assert len(labels) == len(dots) == len(rules) > 3
        for place, (label, dot) in enumerate(zip(labels, dots, strict=True)):
            if width == 1280:
                assert abs(dot - label) < 2
            else:
                assert rules[place] < label < dot < [*rules, dot + 1][place + 1]


LABELS = ".mark-text.layer_4_marks text"
DOTS = ".mark-symbol.role-mark path"
RULES = ".mark-rule.role-mark.layer_0_marks line"


def test_a_phone_has_one_column_and_the_memory_table_whole(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, of="#chart-flops", width=390, is_mobile=True, has_touch=True) as shown:
        page = shown.page
        assert not page.locator("nav").is_visible()
        box = page.locator("#memory").evaluate("one => [one.scrollWidth, one.parentElement.clientWidth]")
        assert box[0] <= box[1]
        edges = page.locator("#memory td:not(:empty)").evaluate_all(EDGES)
        assert edges and all(left >= 0 and right <= 390 for left, right in edges)
        panels = page.locator("#chart-flops svg .cell > g > path.background").evaluate_all(EDGES)
        assert len(panels) == 3 * 2
        assert len({round(left) for left, _ in panels}) == 1


def test_a_wide_window_keeps_the_contents_in_sight(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, width=1400, folded=True) as shown:
        page = shown.page
        page.evaluate("window.scrollTo(0, 3000)")
        assert page.evaluate("window.scrollY") > 2000
        box = page.locator("nav").bounding_box()
        assert box is not None and box["y"] == 0
        page.locator("nav a", has_text="Provenance").click()
        expect(page.locator("#provenance h2")).to_be_in_viewport()


def test_narrowing_the_window_draws_panels_anew(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, of="#chart-flops", width=1280) as shown:
        panels = "all => new Set(all.map(one => Math.round(one.getBoundingClientRect().x))).size"
        cells = shown.page.locator("#chart-flops svg .cell > g > path.background")
        assert cells.evaluate_all(panels) == 3
        shown.page.set_viewport_size({"width": 420, "height": 900})
        shown.drawn_for(420)
        assert cells.evaluate_all(panels) == 1
        assert shown.complaints == []


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def rgb(value: str) -> str:
    return f"rgb({', '.join(str(int(value[place : place + 2], 16)) for place in (1, 3, 5))})"


def check_colours(shown: Shown, palette: dict[str, str]) -> None:
    """Words reach a contrast of 4.5 and lines one of 3 to the ground that the palette names."""
    ground = shown.colours("body", "backgroundColor")[0]
    assert ground == rgb(palette["ground"])
    for selector in ("h1", ".facts", "td", "th", ".claim", ".evidence", ".remedy", "figcaption p", "summary"):
        assert all(contrast(colour, ground) >= 4.5 for colour in set(shown.colours(selector, "color"))), selector
    labels = set(shown.colours(".plot svg .role-axis-label text, .plot svg .role-legend-label text", "fill"))
    assert labels and all(contrast(colour, ground) >= 4.5 for colour in labels)
    lines = set(shown.colours(".plot svg .mark-line path", "stroke"))
    assert lines and all(contrast(colour, ground) >= 3 for colour in lines)


@pytest.mark.parametrize(("scheme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_words_and_lines_stand_out_in_light_and_dark(gallery: Gallery, scheme: str, palette: dict[str, str]) -> None:
    with gallery.show(example_runs.many_cpus, scheme=scheme, of="#chart-core-to-core, #chart-latency") as shown:  # type: ignore[arg-type]
        check_colours(shown, palette)
        cells = set(shown.colours("#chart-core-to-core svg .mark-rect path", "fill"))
        assert cells and cells <= {rgb(palette[f"heat-{step}"]) for step in range(1, 8)}


def test_changing_to_dark_changes_charts_already_drawn(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, of="#chart-latency") as shown:
        before = shown.colours("#chart-latency svg .mark-line path", "stroke")
        shown.page.emulate_media(color_scheme="dark")
        after = shown.colours("#chart-latency svg .mark-line path", "stroke")
        assert before and len(before) == len(after) and set(before).isdisjoint(after)
        check_colours(shown, DARK)


def test_paper_is_white_even_at_night(gallery: Gallery, tmp_path: Path) -> None:
    with gallery.show(example_runs.healthy, scheme="dark", of="#chart-latency") as shown:
        shown.page.emulate_media(media="print")
        check_colours(shown, LIGHT)
        assert not shown.page.locator("nav").is_visible()
        shown.page.emulate_media(media="screen")
        shown.page.pdf(path=str(tmp_path / "page.pdf"), format="A4")
        pages = len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "page.pdf").read_bytes()))
        assert pages >= 5


def test_pointing_at_a_mark_shows_its_value_interval_and_samples(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, of="#chart-parallelism") as shown:
        page = shown.page
        target = page.locator("#chart-parallelism svg path[opacity='0']").first
        target.scroll_into_view_if_needed()
        target.hover(force=True)
        tip = page.locator(".tip")
        expect(tip).to_be_visible()
        words = tip.inner_text().split("\n")
        assert {"value", "95 % interval", "samples"} <= set(words)
        row = next(r for r in example_runs.healthy().index.rows if r.probe == "memory.parallelism")
        assert f"{row.samples} in {row.visits} visits" in words
        box = tip.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 1280
        page.mouse.move(5, 5)
        expect(tip).to_be_hidden()
        assert shown.refused() == []


def test_a_series_chosen_in_the_legend_stands_alone(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, of="#chart-parallelism") as shown:
        page = shown.page
        lines = page.locator("#chart-parallelism svg .mark-line path[opacity]")
        assert [line.get_attribute("opacity") for line in lines.all()] == ["1", "1", "1"]
        page.locator("#chart-parallelism svg .role-legend-label text", has_text="512 KiB").click()
        expect(page.locator("#chart-parallelism svg .mark-line path[opacity='1']")).to_have_count(1)
        assert shown.complaints == []


def test_without_scripts_every_number_is_still_there(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, scripts=False) as shown:
        page = shown.page
        assert page.locator("noscript").count() == 1
        assert page.locator("#tolls tbody tr").count() > 5
        assert page.locator("#memory tbody tr").count() == 4


def test_every_finding_leads_to_its_chart(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, folded=True) as shown:
        page = shown.page
        for link in page.locator(".findings a").all():
            link.click()
            target = page.locator(str(link.get_attribute("href")))
            expect(target).to_be_in_viewport()
            expect(target.locator("svg")).to_have_count(1)
        assert page.locator(".findings a").count() == 3


def test_the_page_opens_short_and_with_its_answer_first(gallery: Gallery) -> None:
    with gallery.show(example_runs.small, folded=True) as shown:
        page = shown.page
        assert page.evaluate("document.documentElement.scrollHeight") < MOST_PIXELS
        assert all(bottom < 900 for bottom in bottoms(shown))
        assert shown.complaints == []


def bottoms(shown: Shown) -> list[float]:
    """Of the headline, whether it is set up right, what the run is worth, and the memory table."""
    boxes = [shown.page.locator(chosen).bounding_box() for chosen in (".lead", ".problems", ".worth", "#memory")]
    return [box["y"] + box["height"] for box in boxes if box is not None]


def test_a_phone_shows_the_answer_on_its_first_two_screens(gallery: Gallery) -> None:
    with gallery.show(example_runs.small, width=390, folded=True, is_mobile=True, has_touch=True) as shown:
        assert len(bottoms(shown)) == 4 and all(bottom < 2 * 844 for bottom in bottoms(shown))


def test_a_problem_leads_to_its_finding(gallery: Gallery) -> None:
    with gallery.show(example_runs.small, folded=True) as shown:
        links = shown.page.locator(".problems a")
        assert links.count() == 2
        for link in links.all():
            link.click()
            finding = shown.page.locator(str(link.get_attribute("href")))
            expect(finding).to_be_in_viewport()
            assert link.inner_text() in finding.inner_text()


def nine_decades() -> Results:
    """Tolls from 1 ns to 90 ms: a scale with as many words as it may have."""
    results = example_runs.small()
    least, greatest, *others = results.index.tolls
    tolls = (msgspec.structs.replace(least, value=1.5), msgspec.structs.replace(greatest, value=9e7), *others)
    return example_runs.with_index(results, tolls=tolls)


def test_in_print_no_table_is_cut_and_axis_labels_do_not_touch(gallery: Gallery) -> None:
    with gallery.show(nine_decades, folded=True) as shown:
        page = shown.page
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 900})
        edges = page.locator("table:visible").evaluate_all(EDGES)
        assert edges and max(right for _, right in edges) <= PAPER + 1
        ticks = page.locator("#tolls .tick text").evaluate_all(EDGES)
        gaps = [after[0] - before[1] for before, after in pairwise(ticks)]
        assert len(ticks) == MOST_TICKS and min(gaps) > LEAST_GAP


def many_tolls() -> Results:
    """As many as a default run has."""
    results = example_runs.small()
    more = [msgspec.structs.replace(toll, toll=f"{toll.toll}, way {way}", typical=False)
            for way in range(8) for toll in results.index.tolls]  # fmt: skip
    tolls = (*results.index.tolls, *more)
    return example_runs.with_index(results, tolls=tolls)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_short_and_its_ladder_opens(gallery: Gallery, width: int) -> None:
    with gallery.show(many_tolls, width=width, folded=True, is_mobile=width < 400, has_touch=True) as shown:
        page, rungs = shown.page, shown.page.locator("#tolls tbody tr:visible")
        assert page.evaluate("document.documentElement.scrollHeight") < MOST_PIXELS
        few = rungs.count()
        page.locator("label[for='all-tolls']").tap()
        assert 0 < few < rungs.count() == page.locator("#tolls tbody tr").count()


def test_what_is_folded_is_drawn_when_it_opens_and_not_before(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, folded=True) as shown:
        plots = shown.page.locator("details.family .plot")
        assert plots.count() > 3 and plots.locator("svg").count() == 0
        family = shown.page.locator("details.family:has(.plot)").first
        family.locator("summary").first.click()
        expect(family.locator(".plot svg")).not_to_have_count(0)
        shown.drawn_for(1280)
        assert 0 < plots.locator("svg").count() < plots.count()


def test_a_tap_and_the_arrow_keys_show_a_marks_tooltip(gallery: Gallery) -> None:
    with gallery.show(example_runs.small, width=390, folded=True, is_mobile=True, has_touch=True) as shown:
        page, tip = shown.page, shown.page.locator(".tip")
        target = page.locator("#chart-latency svg path[opacity='0']").nth(3)
        target.scroll_into_view_if_needed()
        target.tap(force=True)
        expect(tip).to_be_visible()
        assert "95 % interval" in tip.inner_text()
        plot = page.locator("#chart-latency .plot")
        plot.focus()
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        page.keyboard.press("ArrowRight")
        first = tip.inner_text()
        page.keyboard.press("ArrowRight")
        assert tip.is_visible() and tip.inner_text() != first
        assert page.locator("#chart-latency .at").count() == 1


def test_a_search_leaves_what_fits_and_opens_it(gallery: Gallery) -> None:
    with gallery.show(example_runs.small, folded=True) as shown:
        page = shown.page
        rows = page.locator("#tolls tbody tr:not(.group):visible")
        before = rows.count()
        page.locator("#search").fill("page fault")
        assert page.locator("#probe-kernel-page_fault").is_visible()
        assert not page.locator("#probe-kernel-switch").is_visible()
        assert "found" in page.locator("#found").inner_text()
        assert 0 < rows.count() < before
        page.locator("#search").fill("")
        assert rows.count() == before


def test_a_search_finds_levels_and_tolls_by_their_usual_names_and_leads_there(gallery: Gallery) -> None:
    with gallery.show(example_runs.small, folded=True) as shown:
        page = shown.page
        for words, named in (("L2 latency", "L2"), ("DRAM", "memory"), ("syscall", "system call"), ("os says", "L3")):
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.locator("#search").fill(words)
            hit = page.locator("#hits a", has_text=re.compile(rf"^{named}( \u00b7|$)")).first
            expect(hit).to_be_visible()
            hit.click()
            expect(page.locator(str(hit.get_attribute("href")))).to_be_in_viewport()
        assert shown.complaints == []


def test_a_chart_gives_its_data_and_opens_at_its_own_link(gallery: Gallery) -> None:
    with gallery.show(example_runs.small, folded=True) as shown:
        page = shown.page
        with page.expect_download() as coming:
            page.locator("button.csv[data-of='latency']").click()
        lines = Path(coming.value.path()).read_text().splitlines()
        rows = [row for row in example_runs.small().index.rows if row.probe == "memory.latency"]
        assert coming.value.suggested_filename == "latency.csv"
        assert len(lines) > len(rows) and "series" in lines[0]
        folded = page.locator("details.family figure").first
        page.goto(f"{page.url.split('#')[0]}#{folded.get_attribute('id')}")
        expect(folded.locator("svg")).to_be_visible()
        assert shown.refused() == []


def test_every_chart_says_what_it_shows(gallery: Gallery) -> None:
    with gallery.show(example_runs.healthy, folded=True) as shown:
        for figure in shown.page.locator("figure").all():
            said = (figure.locator(".shows").text_content() or "").replace("\N{NO-BREAK SPACE}", " ")
            assert len(said) > 20, figure.get_attribute("id")
            assert said in (figure.locator(".plot").get_attribute("aria-label") or "")


@pytest.mark.parametrize("title", ["constructor", '\\" x', "x\u2028"])
def test_an_axis_with_a_title_that_is_special_in_javascript_is_drawn(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, title: str
) -> None:
    """A metric's summary in a journal may be any word: seven of fourteen charts stayed empty."""
    monkeypatch.setattr(example_runs, "HOSTILE", title)
    chart = "#chart-datamodel-event_store-event"
    with Gallery(browser, tmp_path).show(example_runs.hostile, of=chart) as shown:
        assert shown.page.locator(f"{chart} svg").count()
        assert shown.complaints == []
