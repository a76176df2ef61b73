# SPDX-License-Identifier: Apache-2.0
"""Targets, on which probes run. Every target answers with complete streams of records, over any connection
(docs/add-a-target.md)."""

from __future__ import annotations

from typing import NamedTuple

from tollmeter.extras import install_line


class Lack(NamedTuple):
    """The missing requirement of a target or a compiler, and the Debian packages that provide it, or else another
    remedy."""

    reason: str
    packages: tuple[str, ...] = ()
    otherwise: str = ""

    @property
    def mend(self) -> str:
        return install_line(self.packages) if self.packages else self.otherwise
