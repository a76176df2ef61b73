# SPDX-License-Identifier: Apache-2.0
"""The health of a machine in words, as one line for a drain's reason, as JSON, and as Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tollmeter.model import Results, Row, assignments, first_few, json_document, printable
from tollmeter.numbers.readings import RATES
from tollmeter.report.blocks import Column, Line, Table
from tollmeter.report.compared_rows import full_name
from tollmeter.report.numbers import of_row

MOST_NAMED = 3
_OF_A_SECOND = 1e9


def sentences(slower: Sequence[str], unmeasured: Sequence[str]) -> list[str]:
    """Returns the result first, then what could not be measured."""
    if slower:
        first = "Slower than it should be:"
    elif unmeasured:
        first = "Not measured well enough to call it healthy:"
    else:
        return ["Healthy: no row is slower than it should be."]
    lines = [f"{printable(line)}." for line in slower or unmeasured]
    return [
        first,
        *lines,
        *([f"{len(unmeasured)} rows or comparisons have no answer."] if slower and unmeasured else []),
    ]


def table(rows: Sequence[Row]) -> Table:
    return Table(
        [Column("Rows"), Column("median", True)],
        [Line((full_name(row), of_row(row))) for row in rows if row.status != "unsupported"],
    )


def reason(slower: Sequence[str], unmeasured: Sequence[str]) -> str:
    """Returns one line, as `scontrol update ... Reason=` takes it; empty for a healthy machine."""
    some, kind = (slower, "") if slower else (unmeasured, "not measured: ")
    return f"toll: {kind}{printable(first_few(some, MOST_NAMED, '; '))}\n" if some else ""


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
    lines = ["# HELP toll_health 1 healthy, 0 slower than it should be, -1 not measured.", "# TYPE toll_health gauge"]
    lines.append(f"toll_health {0 if slower else -1 if unmeasured else 1}")
    return "\n".join([*lines, *row_gauges(results.index.rows), ""]).encode()


def row_gauges(every: Sequence[Row]) -> list[str]:
    """Returns the lines of all rows that have a number."""
    rows = [row for row in every if row.median is not None and row.status == "ok"]
    lines = list(
        _gauge("toll_seconds", "Time of one operation.", [row for row in rows if row.unit == "ns"], _OF_A_SECOND)
    )
    lines += _gauge("toll_bytes_per_second", "Bandwidth.", [row for row in rows if row.unit == "B/s"], 1)
    others = [row for row in rows if row.unit in RATES and row.unit != "B/s"]
    return [*lines, *_gauge("toll_per_second", "Rate of operations.", others, 1)]


def _gauge(name: str, about: str, rows: Sequence[Row], divisor: float) -> Iterator[str]:
    if rows:
        yield f"# HELP {name} {about}"
        yield f"# TYPE {name} gauge"
    for row in rows:
        parameters = " ".join([row.metric, *assignments(row.parameters.items())])
        labels = {"probe": row.probe, "parameters": parameters, "abi": row.abi, "state": row.state or ""}
        yield f"{labelled(name, labels)} {(row.median or 0) / divisor:.6g}"


def labelled(name: str, labels: Mapping[str, str]) -> str:
    """Returns a metric's name with its labels."""
    written = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{name}{{{written}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
