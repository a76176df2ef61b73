# SPDX-License-Identifier: Apache-2.0
"""hatchling's hook: a wheel brings the script of a page's charts where the tree has it, and where TOLL_PREBUILT names
the archive of an ABI's probes, these for TOLL_PLATFORM, as `make release` does. Else the wheel has sources alone."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BROUGHT = "tollmeter/_sources/prebuilt"


class PrebuiltProbes(BuildHookInterface):  # type: ignore[type-arg]
    """Adds prebuilt/ABI.tar.xz, and the platform's tag. The probes are static, so that any C library is old enough."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        script = Path(self.root, "prebuilt/vega.js")
        if script.is_file():
            build_data["force_include"][str(script)] = f"{BROUGHT}/{script.name}"
        if archive := os.environ.get("TOLL_PREBUILT"):
            build_data["force_include"][archive] = f"{BROUGHT}/{Path(archive).name}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{os.environ['TOLL_PLATFORM']}"
