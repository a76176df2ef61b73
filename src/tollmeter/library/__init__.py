# SPDX-License-Identifier: Apache-2.0
"""The operations of Tollmeter: plan and measure a run, open a run, derive every result from it."""
