# SPDX-License-Identifier: Apache-2.0
"""Many machines: submitted jobs, collected runs, judged nodes, published runs, a gallery (docs/fleet.md)."""
