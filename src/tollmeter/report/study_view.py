# SPDX-License-Identifier: Apache-2.0
"""A study's answer as blocks: its question, its published figures with this machine's, and the cost of its programs."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.model import Results, Suite
from tollmeter.report import programs
from tollmeter.report.blocks import Block, heading
from tollmeter.report.studies import answers_of, claims_table, listings, study_remarks
from tollmeter.studies.attribution import Attribution, largest


def study_blocks(results: Results, suite: Suite) -> list[Block]:
    """Returns the whole answer, without rates over length, which other runs have too."""
    answered = answers_of(results, suite)
    return [
        heading(suite.question),
        *([f"Source: {suite.source}"] if suite.source else []),
        *answered.sentences,
        *([claims_table(answered.answers)] if answered.answers else []),
        *(f"{number} {remark}" for number, remark in study_remarks(answered.answers)),
        *listings(results),
        *programs.program_tables(results),
        *attribution_blocks(largest(results)),
        *programs.program_remarks(results),
        *programs.answer_blocks(results, suite),
    ]


def attribution_blocks(attributions: Sequence[Attribution]) -> list[Block]:
    """Returns the parts to which a saving is attributed; nothing without an attribution."""
    if not attributions:
        return []
    sentences = [*map(programs.attribution_in_words, attributions), *programs.why_not(attributions)]
    return [programs.attribution_table(attributions), *sentences]
