# SPDX-License-Identifier: Apache-2.0
"""An ABI, from its file to a verified executable: what builds it, what its code must say, and what must be installed for it."""
