# SPDX-License-Identifier: Apache-2.0
"""The statistics of the experiment: sample length, evidence beside a sample, core states, the clock that states a time,
scatter of visits, confidence intervals, and allocation of the next visits.

Everything here is pure and deterministic. docs/measuring.md states the basis of each choice."""
