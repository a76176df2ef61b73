# SPDX-License-Identifier: Apache-2.0
"""Studies and this run's answers to them: claims, attempts, programs, attribution, alternatives."""
