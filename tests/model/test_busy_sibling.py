# SPDX-License-Identifier: Apache-2.0
"""What is said of private caches of which a sibling hyperthread uses a part."""

from __future__ import annotations

from model.sibling import drawn, holds, private_levels


def test_sizes_of_private_caches_hold_beside_a_busy_sibling() -> None:
    found = [(level, size) for seed in range(12) for level, size in private_levels(drawn(seed))]
    held = [answer for level, size in found if (answer := holds(level, size)) is not None]
    assert len(held) > 12
    assert sum(held) >= len(held) - 1


def test_an_idle_sibling_leaves_narrow_sizes() -> None:
    quiet = [private_levels(drawn(seed)._replace(busy=0.0)) for seed in range(6)]
    sizes = [level for levels in quiet for level, _ in levels]
    narrow = [level for level in sizes if level.size_high and level.size_low and level.size_high < 1.2 * level.size_low]
    assert len(narrow) >= 0.8 * len(sizes)
