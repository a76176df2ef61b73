# SPDX-License-Identifier: Apache-2.0
"""Stock systems without a compiler, a Python or a home folder: `make test-roots`."""
