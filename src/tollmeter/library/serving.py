# SPDX-License-Identifier: Apache-2.0
"""Serves the runs of this machine to its browser: a list, and each run's page, updated during measuring.

It listens on the loopback only, requires the token of its address, and only reads. A page loads no other resource."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tollmeter.library import places
from tollmeter.library.derive import open_index, open_run, open_two
from tollmeter.model import Failure
from tollmeter.report.numbers import numbers_of
from tollmeter.report.run_verdict import called
from tollmeter.report.tables import cpu_of
from tollmeter.store.journal import NAME, is_written

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 16
RENEW_S = 20
"""Seconds between two versions of a page: rendering uses one CPU for a second or two, which disturbs measuring."""
_KIND = "text/html; charset=utf-8"
LISTED = 100
"""Highest number of runs on one page of the list: 10,000 lines take 40 s."""
_COLUMNS = {"load": "memory latency", "read": "memory read", "call": "system call"}


class Server(ThreadingHTTPServer):
    """The server. port: TCP port, 0 for a free one. token: first part of every path. Pages and their list are rendered
    one at a time, since msgspec's first use of a type is not thread-safe; a page is cached until its journal
    changes."""

    daemon_threads = True

    def __init__(self, port: int, token: str | None = None) -> None:
        """Raises Failure (5) if the port is taken."""
        self.token = token or secrets.token_urlsafe(TOKEN_BYTES)
        self._lists: dict[int, bytes] = {}
        self._kept: dict[tuple[Path, ...], tuple[list[tuple[float, bool]], bytes]] = {}
        self._making = threading.Lock()
        try:
            super().__init__((LOOPBACK, port), Handler)
        except OSError as error:
            raise Failure(f"cannot listen on {LOOPBACK}:{port}: {error.strerror}", 5) from error

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def page(self, *folders: Path) -> bytes:
        """Returns the present page of a run, or of two runs. Raises Failure if one cannot be read, or if they share no
        chart."""
        from tollmeter.report import overlay, page

        stamps = [((folder / NAME).stat().st_mtime, _is_measured(folder)) for folder in folders]
        with self._making:
            kept = self._kept.get(folders)
            if kept is None or kept[0] != stamps:
                one = len(folders) == 1
                text = (
                    page.render(open_run(*folders), runs="./")
                    if one
                    else overlay.render(overlay.two(open_two(folders)))
                )
                self._kept[folders] = kept = stamps, text.encode()
        return kept[1]

    def listed(self, every: Sequence[tuple[Path, str]], begin: int) -> bytes:
        """Returns the lines of a range of all runs. While a page is being made, returns the previous list."""
        if self._making.acquire(blocking=begin not in self._lists):
            try:
                self._lists[begin] = _list_of_runs(every, begin).encode()
            finally:
                self._making.release()
        return self._lists[begin]


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; the base class refuses every other method (501)."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "tollmeter"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Serves `/TOKEN/`, the list; `/TOKEN/NAME`, a run; `/TOKEN/?run=A&run=B`, two runs that were ticked in the
        list."""
        address = urlsplit(self.path)
        token, _, name = address.path.lstrip("/").partition("/")
        ticked = parse_qs(address.query).get("run", [])
        if not self._is_own_host():
            self._answer(HTTPStatus.FORBIDDEN, b"this address is for a browser of this machine\n", "text/plain")
        elif self.path == "/favicon.ico":
            self._answer(HTTPStatus.NO_CONTENT, b"", _KIND)
        elif not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._answer(HTTPStatus.NOT_FOUND, b"the address that `toll serve` printed is needed\n", "text/plain")
        elif ticked and not name:
            self._runs(*ticked)
        elif not name:
            self._list(parse_qs(address.query).get("from", ["0"])[0])
        else:
            self._runs(unquote(name))

    do_HEAD = do_GET  # noqa: N815

    def _list(self, begin: str) -> None:
        """Sends a part of the list of runs, newest first. begin: index of the first run; empty for the newest."""
        every = places.run_places()[::-1]
        first = int(begin) // LISTED * LISTED if begin.isascii() and begin.isdigit() and len(begin) < 9 else 0
        folders = [place / name for place, name in every[first : first + LISTED]]
        listed = self.server.listed(every, first if folders else 0)
        self._answer(HTTPStatus.OK, listed, _KIND, is_renewed=any(map(_is_measured, folders)))

    def _is_own_host(self) -> bool:
        """Returns whether the request names this server's address. A page elsewhere could resolve its own name to this
        address and send requests as the user."""
        port = self.server.server_port
        return self.headers.get("Host") in (f"{LOOPBACK}:{port}", f"localhost:{port}")

    def _runs(self, *names: str) -> None:
        """Sends the page of one run, or of two."""
        known = {name: place / name for place, name in places.run_places() if name in names}
        unknown = set(names) - set(known)
        if unknown:
            self._answer_with(HTTPStatus.NOT_FOUND, f"there is no run {min(unknown)!r}")
            return
        folders = [known[name] for name in names]
        try:
            page = self.server.page(*folders)
        except (Failure, OSError) as error:
            # Two runs without a common chart are the user's choice, and a bad request; an unreadable run is not.
            is_chosen = len(names) > 1 and isinstance(error, Failure) and error.exit_code in (2, 4)
            self._answer_with(HTTPStatus.BAD_REQUEST if is_chosen else HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            return
        self._answer(HTTPStatus.OK, page, _KIND, is_renewed=any(map(_is_measured, folders)))

    def _answer_with(self, status: HTTPStatus, sentence: str) -> None:
        self._answer(status, f"{sentence}\n".encode(), "text/plain; charset=utf-8")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, *, is_renewed: bool = False) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
            **({"Refresh": str(RENEW_S)} if is_renewed else {}),
        }  # fmt: skip
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Logs nothing: the browser shows the result, and the token stays out of logs."""


def _is_measured(folder: Path) -> bool:
    return is_written(folder / NAME)


def _list_of_runs(every: Sequence[tuple[Path, str]], begin: int) -> str:
    """Returns the list of runs with the verdict of each, and with the run in progress. every: folder and name of all
    runs, the newest first."""
    from tollmeter.report.page import filled, styles

    begins = {"Newer runs": begin - LISTED, "Older runs": begin + LISTED}
    return filled(
        "runs.html",
        style=styles(),
        columns=_COLUMNS.values(),
        runs=[_listed_run(place / name) for place, name in every[begin : begin + LISTED]],
        links=[(name, first) for name, first in begins.items() if 0 <= first < len(every)],
    )


def _listed_run(folder: Path) -> dict[str, Any]:
    """Returns the run's name; its cells, or one cell with the reason that it has none; and whether it opens as a
    page."""
    listed = {"name": folder.name, "opens": True}
    if _is_measured(folder):
        return {**listed, "cells": ["measuring now"]}
    try:
        index = open_index(folder)
    except Failure as failure:
        return {**listed, "opens": False, "cells": [failure.sentence]}
    numbers = numbers_of(index)
    return {**listed, "cells": [cpu_of(index.machine), *(numbers[key] for key in _COLUMNS), called(index.run)]}


def serve(port: int, show_address: Callable[[str], None]) -> None:
    """Serves at the lowest CPU priority until it is interrupted. show_address: called once with the address."""
    with Server(port) as server:
        os.nice(19)
        show_address(server.address)
        server.serve_forever(poll_interval=0.5)
