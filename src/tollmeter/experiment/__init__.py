# SPDX-License-Identifier: Apache-2.0
"""The design of the experiment: how long a sample is, what is seen beside it, in which state the machine was, by which
clock a time is told, how visits scatter, how sure a number is, and where the next visit is worth most.

Everything here is pure and deterministic. What each choice rests on stands in docs/measuring.md, with its experiment.
"""
