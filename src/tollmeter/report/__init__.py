# SPDX-License-Identifier: Apache-2.0
"""Words into pages: terminal, Markdown, charts and one self-contained page, all made from `Results`."""
