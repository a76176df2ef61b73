# SPDX-License-Identifier: Apache-2.0
"""Reads and renders a recipe of conda-forge as rattler-build does, and prints its name. Alone in a bare system."""

import sys

from rattler_build import Stage0Recipe

for variant in Stage0Recipe.from_file(sys.argv[1]).render():
    print(variant.recipe.package.name, variant.recipe.package.version)
