# SPDX-License-Identifier: Apache-2.0
"""The version of Tollmeter, which pyproject.toml repeats."""

VERSION = "0.3.0"
