# SPDX-License-Identifier: Apache-2.0
"""An ABI, from its file to a verified executable: what builds it, what its code must say, what is installed for it."""
