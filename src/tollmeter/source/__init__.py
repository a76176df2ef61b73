# SPDX-License-Identifier: Apache-2.0
"""C sources of a user: `toll casts` and `toll layout`."""
