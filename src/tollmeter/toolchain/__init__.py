# SPDX-License-Identifier: Apache-2.0
"""An ABI, from its file to a verified executable: its compilers, the checks of its code, and its packages."""
