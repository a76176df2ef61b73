# SPDX-License-Identifier: Apache-2.0
"""Pure functions from samples to numbers: no clock, no file, no printing."""
