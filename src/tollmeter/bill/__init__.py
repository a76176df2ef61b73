# SPDX-License-Identifier: Apache-2.0
"""`toll bill`: what a program pays for crossing boundaries, item by item (docs/bill.md)."""
