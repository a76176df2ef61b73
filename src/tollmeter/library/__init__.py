# SPDX-License-Identifier: Apache-2.0
"""What a program does with Tollmeter: plan and measure a run, open one, derive everything from it."""
