# SPDX-License-Identifier: Apache-2.0
"""Makes terminal output, Markdown, charts and a self-contained page from `Results`."""
