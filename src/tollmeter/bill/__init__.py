# SPDX-License-Identifier: Apache-2.0
"""`toll bill`: the cost of a program's boundary crossings, item by item (docs/bill.md)."""
