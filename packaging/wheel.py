# SPDX-License-Identifier: Apache-2.0
"""hatchling's hook: a wheel with prebuilt probes is one of a platform. TOLL_PREBUILT names the folder of an ABI and
TOLL_PLATFORM the platform, as `make release` does; without them the wheel has sources alone."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltProbes(BuildHookInterface):  # type: ignore[type-arg]
    """Adds prebuilt/ABI, and the platform's tag. The probes are static, so that any C library is old enough."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        if folder := os.environ.get("TOLL_PREBUILT"):
            build_data["force_include"][folder] = f"tollmeter/_sources/prebuilt/{Path(folder).name}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{os.environ['TOLL_PLATFORM']}"
