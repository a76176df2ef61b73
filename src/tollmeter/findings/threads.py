# SPDX-License-Identifier: Apache-2.0
"""Rules about threads of one process beside processes."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.findings import FindingText, inferences, ratio, rule
from tollmeter.model import Inference, Results
from tollmeter.numbers.units import in_words

CLEAR_SHARE = 0.6
"""Of what processes do. Two threads that take turns do half; a shared line that moves between two CPUs costs less."""
MOST_NAMED = 3


@rule(
    "kernel.threads_wait_for_each_other",
    "note",
    "keep these calls off the common path (reuse memory and descriptors), or divide the work among processes",
)
def threads_wait_for_each_other(results: Results) -> Iterator[FindingText]:
    """Threads of one process do less together than as many processes, at operations on what threads share."""
    pairs = [pair for pair in _pairs(results) if (pair[0].high or 0.0) < CLEAR_SHARE * (pair[1].low or 0.0)]
    if not pairs:
        return
    pairs.sort(key=lambda pair: _times(pair[0]) / _times(pair[1]))
    said = [f"{in_words(threads.parameters['of'])} {_times(threads):.2g} (processes {_times(processes):.2g})"
            for threads, processes in pairs[:MOST_NAMED]]  # fmt: skip
    several = f"{pairs[0][0].parameters['workers']} threads of a process"
    words = f"{several} wait for each other, and do of what one does, times: {', '.join(said)}"
    yield FindingText(words, [ratio(one.name, float(one.value or 0)) for pair in pairs for one in pair])


def _pairs(results: Results) -> Iterator[tuple[Inference, Inference]]:
    """The efficiency of threads and that of as many processes, by operation."""
    for threads in inferences(results, "worker_efficiency", share="threads"):
        as_many = {name: threads.parameters[name] for name in ("of", "workers")}
        for processes in inferences(results, "worker_efficiency", share="processes", **as_many):
            if threads.value is not None and processes.value is not None:
                yield threads, processes


def _times(efficiency: Inference) -> float:
    return float(efficiency.value or 0) * int(efficiency.parameters["workers"])
