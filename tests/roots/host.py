# SPDX-License-Identifier: Apache-2.0
"""What a bare system takes from this host: Debian's mirrors and their keys, proxies, certificates, and pip's settings.
Read when the tests run, so that nothing of it stands in the checkout."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PLACE = "/run/host"
"""Where a file or folder of the host appears in a system: its own place may be one that the system writes to."""

_FIELDS = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(SOURCESENTRY)"
_APT = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Force", "Acquire::Retries")
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def sources(codename: str) -> list[str]:
    """Lines of a sources.list that name Debian's mirrors of this host, for another Debian. Empty where it has none."""
    lines = said("apt-get", "indextargets", "--format", _FIELDS, "Origin: Debian", "Identifier: Packages").splitlines()
    return list(dict.fromkeys(_line(*line.split(), codename=codename) for line in lines))


def _line(address: str, release: str, component: str, entry: str, *, codename: str) -> str:
    found = re.search(r"signed-by[:=]\s*(/[^\s\]]+)", Path(entry.rpartition(":")[0]).read_text(), re.IGNORECASE)
    signed = f"[signed-by={found[1]}] " if found else ""
    return f"deb {signed}{address} {re.sub(r'^[^-/]+', codename, release)} {component}"


def apt_settings() -> str:
    """How this host's apt reaches its mirrors, as text of an apt.conf."""
    return "".join(f"{line}\n" for line in said("apt-config", "dump").splitlines() if line.startswith(_APT))


def environment() -> dict[str, str]:
    """Variables that tell programs how to reach a network: proxies, certificates, and all that pip is set to."""
    names = [*_PROXIES, *map(str.upper, _PROXIES), *_CERTIFICATES]
    return {name: os.environ[name] for name in names if name in os.environ} | _of_pip()


def _of_pip() -> dict[str, str]:
    """pip's files and variables alike, the variables last, since they prevail."""
    settings = re.findall(
        r"^(\S+)\.([a-z-]+)=(.*)$",
        said(sys.executable, "-I", "-m", "tollmeter.installer", "config", "list"),
        re.MULTILINE,
    )
    settings.sort(key=lambda one: one[0] == ":env:")
    return {
        f"PIP_{key.upper().replace('-', '_')}": " ".join(ast.literal_eval(value).split()) for _, key, value in settings
    }


def paths(texts: Iterable[str]) -> set[Path]:
    """The files and folders of this host that settings name."""
    named = (word for text in texts for word in re.split(r'[\s";]+', text))
    return {Path(word) for word in named if word.startswith("/") and Path(word).exists()}


def moved(text: str, there: Iterable[Path]) -> str:
    """A setting, with the host's files and folders named as a system sees them."""
    for path in sorted(there, reverse=True):
        text = re.sub(rf"(?<![^\s\"]){re.escape(str(path))}(?![^\s\";])", f"{PLACE}{path}", text)
    return text
