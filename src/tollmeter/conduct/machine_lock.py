# SPDX-License-Identifier: Apache-2.0
"""One run at a time measures on a machine: two would each be the other's noise.

The lock is a file that everybody may open and nobody needs to remove: the kernel lets it go with the process that held
it, whatever that died of. It holds nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_USUAL = (Path("/run/lock"), Path("/tmp"))
_NAME = "tollmeter.measuring"
_LOOKS_EVERY_S = 0.5
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


@contextlib.contextmanager
def alone(say: Callable[[str], None], stopped: Callable[[], bool], *, beside: bool = False) -> Iterator[bool]:
    """Waits until no other run measures, and says so first, or until somebody asks to stop. beside: does not wait.
    Yields whether another one measures all the same, as far as can be known.
    """
    descriptor = _opened()
    if descriptor is None:
        say("no file for the machine's lock can be made: another run may measure at the same time")
        yield False
        return
    try:
        free = _taken(descriptor)
        if not free and not beside:
            say("another run measures on this machine: waiting for its end (--beside measures all the same)")
            while not (free := _taken(descriptor)) and not stopped():
                time.sleep(_LOOKS_EVERY_S)
        yield not free
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _opened() -> int | None:
    """TOLL_LOCK names another folder, such as one that containers of one machine share. In a folder that all may write
    to the kernel refuses to make a file that is there and is somebody else's (fs.protected_regular), so it is opened
    first as it is.
    """
    named = os.environ.get("TOLL_LOCK")
    for folder in (Path(named),) if named else _USUAL:
        for making in (0, os.O_CREAT):
            with contextlib.suppress(OSError):
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | making
                return os.open(folder / _NAME, flags, 0o444)
    return None
