# SPDX-License-Identifier: Apache-2.0
"""Makes rows from samples: the value of each batch, by state and at one clock, and the estimate of each point."""
