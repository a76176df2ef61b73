# SPDX-License-Identifier: Apache-2.0
"""Inference of the machine's properties from rows: levels, lines, ways, translations, policies, and lengths at which a
rate falls."""
