# SPDX-License-Identifier: Apache-2.0
"""Tollmeter measures the toll of every boundary that code crosses on a machine, and says why it costs what it costs."""

__version__ = "0.1.0"
