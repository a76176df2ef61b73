# SPDX-License-Identifier: Apache-2.0
"""A process that dies with the one that started it, whatever that one died of.

A probe asks the kernel for this itself. An emulator does not, and would go on for ever without its host: `setpriv` asks
for it, the request survives exec, and a shell between looks whether the host died before the request took hold.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_SAME_PARENT = '[ "$PPID" = "$0" ] && exec "$@"'


def leashed(command: Sequence[str]) -> list[str]:
    """The command to start instead. To be started by this process, from a thread that lives as long as it does."""
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _SAME_PARENT, str(os.getpid()), *command]
