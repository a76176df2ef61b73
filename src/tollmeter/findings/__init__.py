# SPDX-License-Identifier: Apache-2.0
"""Claims about the machine that could be false. One file a rule: it reads a book and yields its findings, if any.

A rule is a module of this package with `find(book) -> Iterable[Finding]`. It selects rows by meaning, never by a
probe's name, and yields nothing where the rows that it needs are missing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from types import ModuleType

from tollmeter.model import Book, Finding

_GRAVEST_FIRST = ("error", "warning", "note")

Rule = Callable[[Book], Iterable[Finding]]


def rules() -> dict[str, Rule]:
    """Every rule by its file's name."""
    return {name: module.find for name, module in _modules().items()}


def subjects() -> dict[str, str]:
    """What each rule looks for, in a sentence."""
    return {name: (module.__doc__ or "").strip() for name, module in _modules().items()}


def _modules() -> dict[str, ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def all_findings(book: Book) -> tuple[Finding, ...]:
    """What all rules found, gravest first, otherwise in the order of their names."""
    findings = [finding for rule in rules().values() for finding in rule(book)]
    return tuple(sorted(findings, key=lambda finding: (_GRAVEST_FIRST.index(finding.severity), finding.name)))
