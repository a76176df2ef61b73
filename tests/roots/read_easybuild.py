# SPDX-License-Identifier: Apache-2.0
"""Reads an easyconfig as EasyBuild does, and prints its name and the words that EasyBuild does not know. Alone in a
bare system: it has no modules tool, without which EasyBuild resolves no dependency."""

import sys

from easybuild.framework.easyconfig.default import DEFAULT_CONFIG
from easybuild.framework.easyconfig.parser import EasyConfigParser

read = EasyConfigParser(sys.argv[1]).get_config_dict()
print(read["name"], read["version"], *sorted(read.keys() - DEFAULT_CONFIG.keys()))
