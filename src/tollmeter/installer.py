# SPDX-License-Identifier: Apache-2.0
"""Runs pip, which no run needs: the environment's own, or the wheel that Python stores for new environments.

python -m tollmeter.installer WORDS...    what pip does with these words"""

from __future__ import annotations

import importlib.util
import runpy
import sys
import sysconfig
from pathlib import Path

NO_INSTALLER = 5


def wheels() -> list[Path]:
    """Returns the paths of pip's wheels that Python or the distribution has installed."""
    folders = [Path(folder) for folder in (sysconfig.get_config_var("WHEEL_PKG_DIR"),) if folder]
    folders += [Path(sysconfig.get_path("stdlib")) / "ensurepip/_bundled", Path("/usr/share/python-wheels")]
    return [wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))]


def main() -> None:
    if importlib.util.find_spec("pip") is None:
        paths = wheels()
        if not paths:
            sys.stderr.write("toll: no pip here, and Python keeps none to make environments with (ensurepip)\n")
            sys.exit(NO_INSTALLER)
        sys.path.insert(0, str(paths[0]))
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
