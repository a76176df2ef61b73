# SPDX-License-Identifier: Apache-2.0
"""A study's answer as blocks: its question, its published figures with this machine's, and the cost of its programs."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.model import Results, Suite
from tollmeter.report import programs
from tollmeter.report.blocks import Block, heading
from tollmeter.report.studies import claim_blocks, listings
from tollmeter.studies.attribution import Attribution, largest


def study_blocks(results: Results, suite: Suite) -> list[Block]:
    """Returns the whole answer, without rates over length, which other runs have too."""
    return [
        heading(suite.question),
        *([f"Source: {suite.source}"] if suite.source else []),
        *claim_blocks(results, suite),
        *listings(results),
        *program_blocks(results),
        *programs.answer_blocks(results, suite),
    ]


def program_blocks(results: Results) -> list[Block]:
    """Returns what each program takes under each ABI, the parts of a saving, and what is missing."""
    remarks = programs.program_remarks(results)
    return [*programs.program_tables(results), *attribution_blocks(largest(results)), *remarks]


def attribution_blocks(attributions: Sequence[Attribution]) -> list[Block]:
    """Returns the parts to which a saving is attributed; nothing without an attribution."""
    if not attributions:
        return []
    sentences = [*map(programs.attribution_in_words, attributions), *programs.why_not(attributions)]
    return [programs.attribution_table(attributions), *sentences]
