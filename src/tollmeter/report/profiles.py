# SPDX-License-Identifier: Apache-2.0
"""Profiles in the form that studies print: function, samples, share; two profiles side by side with the change, and the
change in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tollmeter.model import KERNEL, Profile, Share
from tollmeter.numbers.units import in_words
from tollmeter.report.blocks import Block, Column, Line, Table, heading
from tollmeter.report.numbers import DASH, MINUS, count, plain
from tollmeter.studies.choices import part_like

_MOST_FUNCTIONS, LEAST_SHARE = 14, 0.005
"""Highest number of functions in a table, and least share of the samples of a function in it."""
COARSE_POINTS = 2.0
"""Half-width in percentage points from which it is printed after a share."""
_LEAST_POINTS = 3.0
"""Change in percentage points from which a function is in the sentence."""
_COUNTED = "instructions"
OF_STATE = {
    "uncontended": " on an uncontended core",
    "contended": " on a contended core",
    "unknown": " on a core that was contended for part of the time",
}


def alone(profile: Profile) -> list[Block]:
    """Returns one profile by function, and its method."""
    title = heading(f"{title_of(profile)}, {profile.abi}, {profile.target}")
    return [title, profile_table(profile), source_of(profile)]


def side_by_side(
    left: Profile, right: Profile, titles: tuple[str, str] = ("left", "right"), gain: float | None = None,
    published: Sequence[Table] = (),
) -> list[Block]:  # fmt: skip
    """Returns two profiles by function, and their change in words. gain: ratio of throughputs by rows; None to compare
    the profiles' own times. published: tables of a study's own profiles."""
    titled = tuple(zip(titles, (left, right), strict=True))
    heads = [heading(f"{title}: {title_of(profile)}, {profile.abi}, {profile.target}") for title, profile in titled]
    sources = [f"{title}: {source_of(profile)}" for title, profile in titled]
    return [*heads, beside_table(left, right, titles), *published, profile_verdict(left, right, gain), *sources]


def title_of(profile: Profile, beside: Sequence[Profile] = ()) -> str:
    """Returns a title with parameters; among several profiles, with the parameters that differ. beside: all
    profiles."""
    parameters = ", ".join(
        in_words(value)
        for name, value in profile.parameters.items()
        if not beside or any(other.parameters.get(name) != value for other in beside)
    )
    return f"{profile.probe} ({parameters})" if parameters else profile.probe


def profile_table(profile: Profile) -> Table:
    """Returns the table of one profile; an inlined function is listed below its caller."""
    rows = []
    for share in profile.shares[:_MOST_FUNCTIONS]:
        if share.hits / profile.hits < LEAST_SHARE:
            break
        rows.append(Line((share.function, count(share.hits), _known(share.hits, share.within, profile))))
        rows += [
            Line((_inside(share, name), count(hits), _known(hits, share.within, profile)))
            for name, hits in share.inlined.items()
            if hits / profile.hits >= LEAST_SHARE
        ]
    columns = [Column("function"), Column(_unit(profile), True), Column("ratio(%)", True)]
    return Table(columns, rows)


def _inside(share: Share, name: str) -> str:
    return f"  of these in {name}{'' if share.function == KERNEL else ', inlined'}"


def source_of(profile: Profile) -> str:
    """Returns sentences on how a profile was taken, and how precise its shares are."""
    if profile.source == _COUNTED:
        return f"{count(profile.hits)} instructions executed under {profile.target}, all of them counted."
    lost = f"; {count(profile.lost)} were lost" if profile.lost else ""
    known = [share.within for share in profile.shares if share.within is not None]
    sure = f"; a share is known to ±{max(known):.1f} points or better" if known else ""
    unnamed = any(share.function == KERNEL and not share.inlined for share in profile.shares)
    hidden = " The kernel's functions have no names here: /proc/kallsyms hides their addresses." if unnamed else ""
    by = f"{profile.source}{OF_STATE.get(profile.state or '', '')}"
    return f"{count(profile.hits, 'sample')} by {by}{lost}{sure}.{hidden}"


def beside_table(left: Profile, right: Profile, titles: tuple[str, str]) -> Table:
    """Returns two profiles by function, with the change of each function's share in percentage points."""
    names = sorted(_functions(left, right), key=lambda name: -max(left.part(name), right.part(name)))
    rows = []
    for name in names[:_MOST_FUNCTIONS]:
        if max(left.part(name), right.part(name)) >= LEAST_SHARE:
            decimals = 1 if _within(name, left, right) < 1 else 0
            change = f"{100 * (right.part(name) - left.part(name)):+.{decimals}f}".replace("-", MINUS)
            rows.append(Line((name, *_cells(name, left), *_cells(name, right), change)))
    columns = [
        Column("function"), Column(f"{titles[0]}: {_unit(left)}", True), Column("ratio(%)", True),
        Column(f"{titles[1]}: {_unit(right)}", True), Column("ratio(%)", True), Column("change", True),
    ]  # fmt: skip
    return Table(columns, rows)


def profile_verdict(left: Profile, right: Profile, gain: float | None = None) -> str:
    """Returns the functions that grew and shrank, and the result: `memcpy 55 → 41 %, ipalign 0 → 10 %: 1.31 times as
    fast`."""
    names = sorted(_functions(left, right), key=lambda name: -abs(right.part(name) - left.part(name)))
    changes = [
        f"{name} {100 * left.part(name):.0f} → {100 * right.part(name):.0f} %"
        for name in names[:4]
        if abs(right.part(name) - left.part(name)) * 100 >= max(_LEAST_POINTS, _within(name, left, right))
    ]
    return f"{', '.join(changes) or 'no share changed by 3 points'}: {_speed(left, right, gain)}."


def known_like(profile: Profile, forms: Sequence[str]) -> str:
    """Returns the share of functions whose names match the forms, with the digits that its interval supports; a dash
    without a sample."""
    part = part_like(profile, forms)
    return percentage(part.value, part.high - part.value or None) if part.value else DASH


def _speed(left: Profile, right: Profile, gain: float | None) -> str:
    if not gain and not (left.operation_ns and right.operation_ns):
        return "how fast either was is not known"
    times = gain or left.operation_ns / right.operation_ns
    what = "instructions" if left.source == _COUNTED else "time"
    if abs(times - 1) < 0.01:
        return f"as much {what} as before"
    rate = "" if left.source == _COUNTED else f", {plain(times)} × the throughput"
    return f"{plain(1 / times)} × the {what}{rate}"


def _functions(*profiles: Profile) -> list[str]:
    """Returns the functions in the order of the profiles, so that equal shares have one order in every process."""
    return list(dict.fromkeys(share.function for profile in profiles for share in profile.shares))


def _cells(name: str, profile: Profile) -> tuple[str, str]:
    shares = [share for share in profile.shares if share.function == name]
    hits = sum(share.hits for share in shares)
    return (count(hits), _known(hits, shares[0].within, profile)) if hits else (DASH, DASH)


def _known(hits: int, within: float | None, profile: Profile) -> str:
    return percentage(100 * hits / (profile.hits or 1), within)


def percentage(percent: float, within: float | None) -> str:
    """Returns a percentage with the digits that its interval supports: two for a count, else one or none; with its ± if
    that is coarse."""
    if within is None or within == 0:
        return f"{percent:.{1 if within is None else 2}f}"
    coarse = f" ±{within:.0f}" if within >= COARSE_POINTS else ""
    return f"{percent:.{0 if within >= 1 else 1}f}{coarse}"


def _within(name: str, left: Profile, right: Profile) -> float:
    """Returns the half-width of the change between two profiles, in percentage points; 0 if it was not recorded."""
    known = [share.within or 0.0 for profile in (left, right) for share in profile.shares if share.function == name]
    return math.hypot(*known)


def _unit(profile: Profile) -> str:
    return "instructions" if profile.source == _COUNTED else "samples"
