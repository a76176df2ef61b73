# SPDX-License-Identifier: Apache-2.0
"""A visit as the words that an executable reads, on its command line or from a line of standard input."""

from __future__ import annotations

from urllib.parse import quote

from tollmeter.model import Visit
from tollmeter.model.topology import RELATION


def words(visit: Visit) -> tuple[str, ...]:
    options = (
        f"--visit={visit.id}",
        f"--round={visit.round}",
        f"--target={visit.point.target}",
        f"--cpus={','.join(map(str, visit.cpus))}",
        f"--samples={visit.samples}",
        f"--sample-ns={visit.sample_ns}",
        f"--seed={visit.seed}",
        f"--deadline-ms={visit.deadline_ms}",
        f"--iterations={visit.iterations}",
        f"--control-iterations={visit.control_iterations}",
        f"--priority={visit.priority}",
    )
    places = [f"--marks={visit.marks}"] if visit.marks else []
    if visit.folder:
        places.append(f"--folder={quote(visit.folder, errors='surrogateescape')}")
    if visit.peer:
        places.append(f"--peer={visit.peer}")
    own = (f"--{name}={value}" if name == RELATION else f"{name}={value}" for name, value in visit.point.parameters)
    return (*options, *places, *own)
