# SPDX-License-Identifier: Apache-2.0
"""The few distributions and fits that Tollmeter needs beyond numpy. SciPy has all of them, and takes 83 MB."""
