# SPDX-License-Identifier: Apache-2.0
"""The output of a run as a reader sees it: on a terminal, in Markdown and on the page."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from html.parser import HTMLParser

from rich.console import Console

from tollmeter.model import Results
from tollmeter.report import markdown, page
from tollmeter.report.blocks import Block
from tollmeter.report.terminal import summary
from tollmeter.report.text_layout import print_blocks


def on_console(draw: Callable[[Console], None], width: int = 80) -> str:
    """Returns what is drawn on a terminal without colours."""
    stream = io.StringIO()
    draw(Console(file=stream, width=width))
    return stream.getvalue()


def of_blocks(blocks: Iterable[Block], width: int = 100) -> str:
    return on_console(lambda console: print_blocks(list(blocks), console), width)


def printed(results: Results, width: int = 80, *, whole: bool = False) -> str:
    return on_console(lambda console: summary(results, console, whole=whole), width)


def words(results: Results, width: int = 80, *, whole: bool = False) -> str:
    """Returns the terminal's output on one line, so that no words are apart where a line was broken."""
    return " ".join(printed(results, width, whole=whole).split())


def screens(results: Results, width: int = 80, *, whole: bool = False) -> tuple[str, str, str]:
    """Returns the outputs of terminal, Markdown and page, without their escapes and no-break spaces."""
    plain = page.render(results).replace("&#39;", "'").replace("\N{NO-BREAK SPACE}", " ")
    return words(results, width, whole=whole), markdown.render(results).replace("\\", ""), plain


BLOCKS = {"p", "li", "tr", "h1", "h2", "h3", "div", "section", "figcaption", "summary", "dt", "dd", "title", "header"}


class _Words(HTMLParser):
    """Collects a page's words, each block on its own line and cells apart."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.unseen = 0

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.unseen += tag in ("script", "style", "svg")
        self.words.append("\n" if tag in BLOCKS else " | " if tag in ("td", "th") else "")

    def handle_endtag(self, tag: str) -> None:
        self.unseen -= tag in ("script", "style", "svg")
        self.words.append("\n" if tag in BLOCKS else " " if tag == "span" else "")

    def handle_data(self, data: str) -> None:
        self.words.append("" if self.unseen else data.replace("\n", " "))


def words_of_page(text: str) -> str:
    """Returns the text of a page that a reader sees, without its charts."""
    reader = _Words()
    reader.feed(text)
    lines = (" ".join(line.split()) for line in "".join(reader.words).split("\n"))
    return "\n".join(line for line in lines if line)
