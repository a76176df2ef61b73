# SPDX-License-Identifier: Apache-2.0
"""What breaks it, by the hundred: `make faults`."""
