# SPDX-License-Identifier: Apache-2.0
"""One self-contained page of a run: it opens from disk, loads nothing, and shows hostile names as text.

Everything inline is pinned by its SHA-256 in the page's own content security policy; nothing is evaluated (Vega's
expressions are interpreted), and every text from a machine goes through the template's escaping or through a JSON
island in which no `<` is left."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tollmeter import commands
from tollmeter.extras import CHARTS, chart_script, fetched, is_installed
from tollmeter.files import write_whole
from tollmeter.inference.hierarchy import disagrees
from tollmeter.model import Failure, Index, Results
from tollmeter.notices import notify
from tollmeter.report import chart_style, machine_tables, numbers, programs, run_verdict, tables
from tollmeter.report.bills import bill_tables
from tollmeter.report.blocks import Block
from tollmeter.report.charts import Chart, charts
from tollmeter.report.headline import FEW_PROBES, below_the_headline, headline, problems
from tollmeter.report.length_sections import sections
from tollmeter.report.listing import value_in_words
from tollmeter.report.microarchitecture import published_latencies
from tollmeter.report.peers import peers_table
from tollmeter.report.probe_sections import chart_of, command, dossiers, explain_words, families, provenance
from tollmeter.report.shown import own_groups
from tollmeter.report.studies import REDRAWN, claim_blocks, listings, not_redrawn
from tollmeter.report.text_layout import bound, parts
from tollmeter.report.tolls import ladder, mitigations_table
from tollmeter.report.worker_scaling import scaling_tables
from tollmeter.root import ROOT, typed

TEMPLATES = Path(__file__).parent / "templates"
BESIDE_MEMORY, BESIDE_SCALING = ("latency", "bandwidth"), ("scaling",)
_LADDER = "ladder"
"""Name of the chart that the page shows as its table of tolls."""

FEATURED = ("parallelism", "load", "node-latency", "core-to-core", "distribution", "steadiness")
"""Names of charts that are open on the page; the others are folded with their family."""

UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write_page(results: Results, path: Path, peers: Sequence[Index] = ()) -> None:
    """Writes the page, completely or not at all. peers: indexes of machines to which this one is compared. Raises
    Failure (5) if the page cannot be written."""
    put(render(results, peers=peers), path)


def put(text: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        why = error.strerror or error
        elsewhere = typed("report", "RUN", "--out", "FILE")
        raise Failure(f"cannot write {path}: {why}; `{elsewhere}` writes it elsewhere", 5) from error


def render(results: Results, runs: str = "", peers: Sequence[Index] = ()) -> str:
    """Returns the page's text. runs: address of the list of runs, for a served page."""
    drawn = [chart for chart in charts(results) if not chart.name.startswith(_LADDER)]
    return rendered("page.html", drawn, {**_words(results, drawn), "runs": runs, "peers": peers_table(results, peers)})


def styles(*sheets: str) -> str:
    """Returns the style sheets of every page. The palettes precede the sheets that use them; on paper the page is
    always light."""
    light, dark = chart_style.variables(chart_style.LIGHT), chart_style.variables(chart_style.DARK)
    grounds = f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}@media print{{:root{{{light}}}}}"
    return "\n".join([grounds, *map(_template_text, ("page.css", *sheets))])


def rendered(
    template: str, drawn: Sequence[Chart], words: Mapping[str, Any], *sheets: str, own: str = "", data: Any = None,
    loads: bool = False,
) -> str:  # fmt: skip
    """Returns a page of these charts and words. sheets: styles beyond the page's own; own: script of a page without
    charts, with its data; loads: whether it loads separate scripts."""
    style = styles(*sheets)
    script, drawing = _template_text(own or "page.js"), chart_script_text() if drawn else ""
    scripts = [drawing, script] if drawn else [script] if own else []
    beside = "'self' file: " if loads else ""  # from a disk no file is of the page's own origin
    allowed = beside + " ".join(map(_hash, scripts)) or "'none'"
    policy = (f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; "
              "base-uri 'none'; form-action 'none'")  # fmt: skip
    if not own:
        config = chart_style.stacked(chart_style.config(chart_style.by_variable, chart_style.PAGE_FONT))
        data = {"config": config, "charts": {chart.name: _by_variable(_spec(chart)) for chart in drawn}}
    return filled(
        template, **words, policy=policy, style=Markup(style), script=Markup(script), bundle=Markup(drawing),
        data=Markup(island(data)), every_chart=drawn, own=own,
    )  # fmt: skip


def filled(template: str, **words: Any) -> str:
    """Returns the text of a template, in which every word that is not Markup is escaped."""
    return str(_environment().get_template(template).render(**words))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def island(data: Mapping[str, Any]) -> str:
    """Returns JSON that can end neither its element nor a comment: `<`, `>` and `&` only as escapes."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign, harmless in UNSAFE.items():
        text = text.replace(sign, harmless)
    return text


def _words(results: Results, drawn: Sequence[Chart]) -> dict[str, Any]:
    discarded = tables.discarded(results)
    memory, index = tables.memory_table(results), results.index
    of_answer = [*(BESIDE_MEMORY if memory else ()), *BESIDE_SCALING]
    opening = _opening(results, drawn, of_answer)
    drawn = [replace(chart, general=True) if chart.name in opening else chart for chart in drawn]
    probes = dossiers(results, drawn, discarded)
    unfinished = "" if index.run.verdict == "interrupted" else tables.unfinished(results)
    others = [chart for chart in drawn if chart.name not in opening]
    folded = [chart for chart in others if chart.general and not chart.name.startswith(REDRAWN)
              and chart.name not in (*BESIDE_MEMORY, *BESIDE_SCALING, *FEATURED)]  # fmt: skip
    verdict = run_verdict.verdict_sentence(results)
    worth = {
        "word": run_verdict.verdict_word(index.run) if verdict else "", "made_of": verdict.partition(": ")[2],
        "meaning": run_verdict.verdict_meaning(results), "held": run_verdict.withheld(results),
    }  # fmt: skip
    sureness = tables.of_the_run(results, discarded) | tables.run_remarks(index.run)
    return {
        "run": index.run,
        "facts": tables.facts_of(index.machine),
        "when": tables.when(results),
        "extent": tables.extent(results),
        "answer": headline(results),
        "problems": problems(results),
        "worth": worth,
        "sureness": {name: said for name, said in sureness.items() if name != "Unfinished"},
        "unfinished": unfinished,
        **_study(results, drawn),
        "in_turns": below_the_headline(results),
        "memory": memory,
        "below_memory": _below_memory(results),
        "of_machine": _of_machine(results),
        "inferred": machine_tables.inferred_table(results),
        "instruction_side": machine_tables.instruction_table(results),
        "scaling": scaling_tables(results),
        "scaling_charts": [chart for chart in drawn if chart.name in BESIDE_SCALING],
        "ladder": ladder(results),
        "mitigations": mitigations_table(results),
        "signs": tables.SIGNS,
        "findings": [
            (finding, [tables.evidence(item, results) for item in finding.evidence], chart_of(finding, drawn))
            for finding in tables.findings(results)
        ],
        "opening": [chart for chart in drawn if chart.name in opening],
        "first": [chart for chart in drawn if memory and chart.name in BESIDE_MEMORY],
        "charts": [chart for chart in others if chart.name in (FEATURED if memory else (*BESIDE_MEMORY, *FEATURED))],
        "probes": probes,
        "value_in_words": partial(value_in_words, results),
        "families": families(probes, folded, own_groups(results)),
        "command": command(results),
        "provenance": provenance(results),
        "builds": sorted(results.builds, key=lambda build: (build.probe, build.abi)),
        "parts": machine_tables.parts_of(index.machine),
        "nodes": machine_tables.node_table(index.machine),
        "limits": machine_tables.limits(index.machine),
    }


def _below_memory(results: Results) -> list[str]:
    """Returns the lines below the memory table: the meaning of its mark, the published latencies, and why levels have
    gaps."""
    levels, machine = results.index.hierarchy, results.index.machine
    is_marked = any(disagrees(level, machine) for level in levels)
    mark = "≠: the size that the system reports lies outside the measured interval." if is_marked else ""
    published = published_latencies(machine, [level.level for level in levels])
    return [*filter(None, (mark, published)), *tables.unread_levels(results)]


def _of_machine(results: Results) -> list[Block]:
    """Returns the blocks that follow the memory table: kinds of core, memory nodes, loads beside traffic, clocks."""
    every: list[Block | None] = [
        *machine_tables.of_kinds(results), *machine_tables.kind_tables(results), *machine_tables.node_tables(results),
        machine_tables.load_table(results), tables.no_levels(results), machine_tables.clocks_table(results),
    ]  # fmt: skip
    return [block for block in every if block]


def _opening(results: Results, drawn: Sequence[Chart], of_answer: Sequence[str]) -> list[str]:
    """Returns the names of the charts that follow the first sentence: in a run of at most FEW_PROBES probes, the first
    chart of each probe, unless it is in `of_answer`. The charts of a study are shown with its claims."""
    probes = {row.probe for row in results.index.rows}
    if len(probes) > FEW_PROBES or (results.suite and results.suite.published):
        return []
    first = (next((chart.name for chart in drawn if probe in chart.probes), None) for probe in sorted(probes))
    return [name for name in dict.fromkeys(first) if name is not None and name not in of_answer]


def _study(results: Results, drawn: Sequence[Chart]) -> dict[str, Any]:
    """Returns a study's question and published figures with the measured ones, and rates over length of any suite."""
    suite = results.suite if results.suite and results.suite.published else None
    return {
        "study": suite,
        "claims": claim_blocks(results, suite) if suite else [],
        "redrawn": [chart for chart in drawn if chart.name.startswith(REDRAWN)],
        "not_redrawn": not_redrawn(results, suite, [chart.name for chart in drawn]) if suite else [],
        "listings": listings(results),
        "programs": [*bill_tables(results.index.rows, results.probes), *programs.program_blocks(results)],
        "answer_of_programs": programs.answer_blocks(results, suite) if suite else [],
        "sections": [section for section in sections(results) if section.first or section.several],
    }


def _spec(chart: Chart) -> dict[str, Any]:
    """Returns the specification with its description, and its data by column (None if a row has no value), which takes
    half the space of named fields."""
    data = {}
    for name, rows in chart.spec["datasets"].items():
        fields = dict.fromkeys(field for row in rows for field in row)
        data[name] = {field: [row.get(field) for row in rows] for field in fields}
    return {**chart.spec, "datasets": data, "description": f"{chart.title}. {chart.caption or chart.question}"}


_VARIABLES = {
    chart_style.LIGHT[name]: chart_style.by_variable(name) for name in (*chart_style.HEAT, *chart_style.SERIES)
}


def _by_variable(node: Any, *, is_range: bool = False) -> Any:
    """Returns a specification whose scale colours are the page's variables, so that they follow light and dark mode."""
    if isinstance(node, dict):
        return {key: _by_variable(value, is_range=key == "range") for key, value in node.items()}
    if isinstance(node, list):
        return [
            _VARIABLES.get(item, item) if is_range and isinstance(item, str) else _by_variable(item) for item in node
        ]
    return node


@cache
def _template_text(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("tollmeter.report"), autoescape=True, undefined=StrictUndefined,
                       trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    environment.filters |= {"bound": bound, "prose": prose, "explaining": explain_words}
    environment.filters |= {"size": numbers.size, "quantity": numbers.quantity, "of_row": numbers.of_row}
    return environment


def prose(text: str) -> Markup:
    """Returns a sentence for reading: numbers stay with their units, and commands are marked for copying."""
    pieces = (Markup("<code>{}</code>").format(piece) if code else escape(bound(piece)) for piece, code in parts(text))
    return Markup("").join(pieces)


# ---- the script of the charts ----------------------------------------------------------------------------------------

# The script that draws the page's charts: Vega, Vega-Lite and their expression interpreter, as vl-convert has them.
#
# Making it starts a JavaScript engine of about 125 MB, so a child process does it, once for each version of vl-convert,
# and the text is kept under build/. A page needs only the text: where vl-convert is not installed, it is downloaded to
# a temporary folder.

MAKE = """
import sys
sys.path[:0] = sys.argv[1:]
import vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())
"""
LEAST_BYTES = 100_000
"""Fewest bytes of a complete script."""
SECONDS = 120
"""Seconds after which making the script has failed."""


def chart_script_text(folder: Path = ROOT / "build") -> str:
    """Returns the script that draws the charts, safe inside a <script> element. Makes it once with vl-convert, which is
    downloaded if it is not installed, and stores it in `folder`. Raises Failure (5) if it cannot be made."""
    kept = chart_script(folder)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = kept.read_text(encoding="utf-8")
        if len(text) > LEAST_BYTES:
            return text
    if is_installed(CHARTS):
        text = harmless(_drawing_script())
    else:
        notify("fetching the script that draws the charts of a page, once: 34 MB, of which 1 MB stays")
        with tempfile.TemporaryDirectory() as scratch:
            text = harmless(_drawing_script(str(fetched(ROOT, CHARTS, scratch))))
    with contextlib.suppress(OSError):  # where no copy can be kept, it is made again next time
        folder.mkdir(exist_ok=True)
        write_whole(kept, text.encode())
    return text


def harmless(script: str) -> str:
    """Returns the script, in which every sequence that would end or change the script element is broken up. Inside
    strings and patterns the meaning is unchanged."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _drawing_script(*folders: str) -> str:
    """Returns the script that draws charts, from vl-convert in a child process. folders: folders that contain
    vl-convert, if it is not installed with other packages. Raises Failure (5) if the script cannot be made."""
    try:
        done: commands.CompletedProcess[bytes] = commands.run(
            "checkout", [sys.executable, "-I", "-c", MAKE, *folders], capture_output=True, timeout=SECONDS, check=True,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, commands.SubprocessError) as error:
        raise Failure(f"the page's drawing script cannot be made: {error}", 5) from error
    return done.stdout.decode("utf-8")


if __name__ == "__main__":
    chart_script_text()
