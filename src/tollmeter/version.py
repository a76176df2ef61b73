# SPDX-License-Identifier: Apache-2.0
"""The version of Tollmeter, for its packages too: a test finds it in CITATION.cff and debian/changelog."""

VERSION = "0.3.0"
