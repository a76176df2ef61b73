# SPDX-License-Identifier: Apache-2.0
"""A share in words, in one form everywhere: 51 %."""

from __future__ import annotations


def in_percent(share: float, decimals: int = 0, sign: str = "") -> str:
    """sign: as a format takes it; "+" for a change. Raises nothing: a value that is not finite is printed as it is."""
    return f"{share:{sign}.{decimals}%}".replace("%", " %")
