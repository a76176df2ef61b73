# SPDX-License-Identifier: Apache-2.0
"""Fakes of Debian's tools, first on the PATH, for a system with nothing installed but `make`, and without
`shellcheck`."""

from __future__ import annotations

import os
from pathlib import Path

# Notes what it is asked for and pretends to have installed it. APT_REFUSES is what it fails at, APT_LASTS the seconds
# of an installation; $FAKES/come/PACKAGE is run when the package is installed.
DPKG_QUERY = """#!/bin/sh
for last; do :; done
{ [ "$last" = make ] || grep -qx "$last" there; } && printf installed
"""
APT_GET = """#!/bin/sh
echo "$*" >>calls
case $* in
  *"${APT_REFUSES-nothing}"*) exit 100 ;;
  *download-only*) printf '%s\n' '0 upgraded, 2 newly installed' 'Need to get 97.3 MB of archives.' Get:1 Get:2; exit ;;
  *update | *" -s "*) exit ;;
esac
touch unpacking
sleep "${APT_LASTS-0}"
printf '%s\\n' "$@" >>there
for package; do [ ! -x "${0%/*}/come/$package" ] || "${0%/*}/come/$package"; done
"""
APT_CACHE = '#!/bin/sh\n[ "$2" != shellcheck ]\n'


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def fakes(tree: Path, user: int) -> dict[str, str]:
    """Writes the fake tools into the checkout `tree`, and returns the environment in which a process uses them. user:
    the user id that `id` reports."""
    texts = {"dpkg-query": DPKG_QUERY, "apt-get": APT_GET, "apt-cache": APT_CACHE, "id": f"#!/bin/sh\necho {user}\n"}
    for name, text in texts.items():
        program(tree / "fakes" / name, text)
    return {"PATH": f"{tree / 'fakes'}:{os.environ['PATH']}", "TOLL_INSTALL": ""}


def asked(call: str) -> list[str]:
    """Returns the words of a call of apt-get, without the options that all calls have."""
    return call.partition("/build/fetched ")[2].split()


def calls(tree: Path) -> list[str]:
    """Returns the calls of apt-get, and of other fakes that record their calls in the same file."""
    path = tree / "calls"
    return path.read_text().splitlines() if path.exists() else []
