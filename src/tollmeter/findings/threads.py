# SPDX-License-Identifier: Apache-2.0
"""Rules about threads of one process in comparison with processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollmeter.findings import MOST_NAMED, FindingText, inferences, ratio_evidence, rule
from tollmeter.model import Inference, Results
from tollmeter.numbers.units import in_words

CLEAR_SHARE = 0.6
"""Share of the throughput of processes below which threads wait for each other. Two threads that take turns reach half;
a shared cache line that moves between two CPUs costs less."""
INTERRUPTS = ("membarrier",)
"""Operations that interrupt each CPU which runs another thread of the process. In a process of one thread there is no
such CPU, so that neither processes nor reuse of memory are an alternative."""

Pair = tuple[Inference, Inference]
"""The efficiency of threads, and that of equally many processes."""


@rule(
    "kernel.threads_wait_for_each_other",
    "note",
    "keep these calls off the common path (reuse memory and descriptors), or divide the work among processes",
)
def threads_wait_for_each_other(results: Results) -> Iterator[FindingText]:
    """Threads of one process together do less than as many processes, in operations on resources that threads share."""
    by_workers: dict[int, list[Pair]] = {}
    for threads, processes in _pairs(results):
        if (threads.high or 0.0) < CLEAR_SHARE * (processes.low or 0.0):
            by_workers.setdefault(_workers(threads), []).append((threads, processes))
    for workers, pairs in sorted(by_workers.items(), reverse=True):
        pairs.sort(key=lambda pair: float(pair[0].value or 0) / float(pair[1].value or 1))
        evidence = [ratio_evidence(one.name, float(one.value or 0)) for pair in pairs for one in pair]
        yield FindingText(_words(workers, pairs), evidence)


def _words(workers: int, pairs: Sequence[Pair]) -> str:
    """Returns the pairs of one number of workers as a sentence. pairs: lowest share first."""
    throughputs = (
        f"{in_words(threads.parameters['of'])} {_times(threads)} ({workers} processes: {_times(processes)})"
        for threads, processes in pairs[:MOST_NAMED]
    )
    reach = "threads of one process together reach, as a multiple of one thread's throughput:"
    return f"{workers} {reach} {', '.join(throughputs)}"


def _pairs(results: Results) -> Iterator[Pair]:
    """Yields the efficiency of threads and of processes for each operation that has both."""
    for threads in inferences(results, "worker_efficiency", share="threads"):
        as_many = {name: threads.parameters[name] for name in ("of", "workers")}
        if as_many["of"] in INTERRUPTS:
            continue
        for processes in inferences(results, "worker_efficiency", share="processes", **as_many):
            if threads.value is not None and processes.value is not None:
                yield threads, processes


def _workers(efficiency: Inference) -> int:
    return int(efficiency.parameters["workers"])


def _times(efficiency: Inference) -> str:
    """Returns the throughput of all workers as a multiple of that of one."""
    times = float(efficiency.value or 0) * _workers(efficiency)
    return f"{times:.{1 if times >= 1 else 2}f}"
