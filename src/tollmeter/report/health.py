# SPDX-License-Identifier: Apache-2.0
"""The health of a machine in words, as one line for a drain's reason, as JSON, and as Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tollmeter.model import Results, Row, assignments, first_few, json_document, printable
from tollmeter.numbers.readings import RATES
from tollmeter.report.blocks import Column, Line, Table
from tollmeter.report.compared_rows import full_name
from tollmeter.report.numbers import of_row

_MOST_NAMED = 3
_OF_A_SECOND = 1e9


def sentences(slower: Sequence[str], unmeasured: Sequence[str]) -> list[str]:
    """Returns the result, the slower rows or else the gaps, and the number of gaps beside slower rows."""
    if not slower and not unmeasured:
        return ["Healthy: no row is slower than it should be."]
    first = "Slower than it should be:" if slower else "Not measured well enough to call it healthy:"
    rest = [f"{len(unmeasured)} rows or comparisons have no answer."] if slower and unmeasured else []
    return [first, *(f"{printable(line)}." for line in slower or unmeasured), *rest]


def table(rows: Sequence[Row]) -> Table:
    return Table(
        [Column("Rows"), Column("median", True)],
        [Line((full_name(row), of_row(row))) for row in rows if row.status != "unsupported"],
    )


def reason(slower: Sequence[str], unmeasured: Sequence[str]) -> str:
    """Returns one line, as `scontrol update ... Reason=` takes it; empty for a healthy machine."""
    reasons, kind = (slower, "") if slower else (unmeasured, "not measured: ")
    return f"toll: {kind}{printable(first_few(reasons, _MOST_NAMED, '; '))}\n" if reasons else ""


def as_json(results: Results, slower: Sequence[str], unmeasured: Sequence[str]) -> bytes:
    answer = {
        "healthy": not slower and not unmeasured, "slower": slower, "unmeasured": unmeasured,
        "run": results.index.run.folder, "host": results.index.machine.host,
        "rows": [{"name": full_name(row), "unit": row.unit, "status": row.status, "median": row.median, "low": row.low,
                  "high": row.high, "state": row.state, "converged": row.converged} for row in results.index.rows],
    }  # fmt: skip
    return json_document(answer)


# ---- Prometheus -----------------------------------------------------------------------------------------------------


def prometheus(results: Results, slower: Sequence[str], unmeasured: Sequence[str]) -> bytes:
    """Returns text format 0.0.4, as node_exporter's textfile collector reads it. toll_health: 1 healthy, 0 slower, -1
    not measured."""
    state = 0 if slower else -1 if unmeasured else 1
    health = gauge("toll_health", "1 healthy, 0 slower than it should be, -1 not measured.", [({}, state)])
    return f"{health}{row_gauges(results.index.rows)}".encode()


def row_gauges(every: Sequence[Row]) -> str:
    """Returns the lines of all rows that have a number."""
    rows = [row for row in every if row.median is not None and row.status == "ok"]
    others = [row for row in rows if row.unit in RATES and row.unit != "B/s"]
    kinds = (
        ("toll_seconds", "Time of one operation.", [row for row in rows if row.unit == "ns"], _OF_A_SECOND),
        ("toll_bytes_per_second", "Bandwidth.", [row for row in rows if row.unit == "B/s"], 1),
        ("toll_per_second", "Rate of operations.", others, 1),
    )
    return "".join(
        gauge(name, about, [(_labels(row), f"{(row.median or 0) / divisor:.6g}") for row in of_kind])
        for name, about, of_kind, divisor in kinds
    )


def _labels(row: Row) -> dict[str, str]:
    parameters = " ".join([row.metric, *assignments(row.parameters.items())])
    return {"probe": row.probe, "parameters": parameters, "abi": row.abi, "state": row.state or ""}


def gauge(name: str, about: str, values: Iterable[tuple[Mapping[str, str], object]]) -> str:
    """Returns the lines of one gauge, each value with its labels; empty without a value."""
    lines = []
    for labels, value in values:
        written = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{f'{{{written}}}' if written else ''} {value}\n")
    return f"# HELP {name} {about}\n# TYPE {name} gauge\n{''.join(lines)}" if lines else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
