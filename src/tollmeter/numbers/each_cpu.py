# SPDX-License-Identifier: Apache-2.0
"""Computes the cost of a loop on each CPU, from visits whose companions run it on every CPU: one cost for each CPU and
visit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.batches import Array
from tollmeter.experiment.limits import UNDISTURBED
from tollmeter.experiment.precision import quantiles_of
from tollmeter.model import Outcome
from tollmeter.model.samples import Samples

MEANS = "step-of-cpu"


class EachCpu(NamedTuple):
    """The costs of CPUs. cpus: CPU of each column of `logs`. logs: logarithm of the ns of one step, one line for each
    visit and one column for each CPU."""

    cpus: tuple[int, ...]
    logs: Array

    def of(self, cpus: Sequence[int]) -> EachCpu:
        """Returns the costs of these CPUs alone."""
        return EachCpu(tuple(cpus), self.logs[:, [self.cpus.index(cpu) for cpu in cpus]])


def each_cpu(outcomes: Sequence[Outcome]) -> EachCpu:
    """Returns the costs by the visits of one point that ran on the same CPUs as the last one."""
    usable = [one for one in outcomes if one.status == "ok" and len(one.samples) and len(set(one.workers)) > 1]
    if not usable:
        return EachCpu((), np.empty((0, 0)))
    cpus = tuple(sorted(usable[-1].workers))
    rows = [row for one in usable if tuple(sorted(one.workers)) == cpus and (row := _of_visit(one)) is not None]
    return EachCpu(cpus, np.array(rows).reshape(-1, len(cpus)))


def _of_visit(outcome: Outcome) -> Array | None:
    """Returns the logarithms of the costs of one visit, in the order of CPU numbers; None if a companion lacks a time
    in a sample."""
    samples = Samples.of(outcome.samples)
    worker_ns = samples.column("body_2n") / (2.0 * samples.column("iterations"))
    lanes = np.array(samples.lanes(), dtype=float).reshape(len(worker_ns), -1, 2)
    if lanes.shape[1] + 1 != len(outcome.workers) or (lanes <= 0).any() or (worker_ns <= 0).any():
        return None
    costs = np.column_stack([worker_ns, lanes[:, :, 1] / lanes[:, :, 0]]) / (outcome.work.operations or 1.0)
    counts = np.full(costs.shape[1], len(worker_ns))
    return np.log(quantiles_of(costs.T.ravel(), counts, UNDISTURBED))[np.argsort(outcome.workers)]
