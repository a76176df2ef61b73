# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run: on a terminal, in Markdown and on the page."""

from __future__ import annotations

import io

from rich.console import Console

from tollmeter.model import Results
from tollmeter.report import markdown, page
from tollmeter.report.terminal import summary


def printed(results: Results, width: int = 80, *, whole: bool = False) -> str:
    stream = io.StringIO()
    summary(results, Console(file=stream, width=width), whole=whole)
    return stream.getvalue()


def words(results: Results, width: int = 80, *, whole: bool = False) -> str:
    """The same on one line, so that no words are apart where a line was broken."""
    return " ".join(printed(results, width, whole=whole).split())


def screens(results: Results, width: int = 80, *, whole: bool = False) -> tuple[str, str, str]:
    """All three, without the marks that keep words and numbers as they are."""
    plain = page.render(results).replace("&#39;", "'").replace("\N{NO-BREAK SPACE}", " ")
    return words(results, width, whole=whole), markdown.render(results).replace("\\", ""), plain
