# SPDX-License-Identifier: Apache-2.0
"""Reads an easyconfig as EasyBuild does, and prints its name. Alone in a bare system."""

import sys

from easybuild.framework.easyconfig.easyconfig import EasyConfig
from easybuild.tools.options import set_up_configuration

set_up_configuration(
    args=["--allow-use-as-root-and-accept-consequences", "--modules-tool=EnvironmentModules"], silent=True
)
read = EasyConfig(sys.argv[1])
print(read["name"], read["version"], read.dependencies())
