# SPDX-License-Identifier: Apache-2.0
"""The statistics of the experiment: sample length, evidence of a sample, core states, the clock that states a time,
scatter of visits, confidence intervals, and allocation of the next visits.

All functions are pure and deterministic. docs/measuring.md states the basis of each choice."""
