# SPDX-License-Identifier: Apache-2.0
"""Names that probes, parameters, choices and metrics had before version 0.3.

A recorded run, or a suite, that holds them is read under the present names: a run holds its suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeVar

T = TypeVar("T")

STATES = {"whole": "uncontended", "shared": "contended"}
"""Present names of core states, by former name."""
_STATE = 5
"""Index of the state among the words of a row's name."""
_PROBES = {"kernel.own_vectors": "kernel.custom_vectors", "memory.memory_set": "memory.libc_mem"}
# By the present name of a probe:
_PARAMETERS = {"kernel.call_object": {"map": "address_space"}, "memory.associativity": {"apart": "stride"}}
_METRICS = {"memory.copy_conflict": {"apart": "distant"}}
_CHOICES = {
    "kernel.custom_vectors": {
        "test": {"object_same_map": "object_same_address_space", "object_other_map": "object_other_address_space"}
    },
    "kernel.signal_self": {"step": {"blocked": "pending"}},
    "kernel.supervise_call": {"by": {"notice": "user_notification"}},
    "memory.stream": {"stores": {"past_caches": "non_temporal"}},
    "memory.stream2": {"stores": {"past_caches": "non_temporal"}},
}
_CHANGED = {*_PROBES, *_PARAMETERS, *_METRICS, *_CHOICES}


def has_former_names(probe: str) -> bool:
    """Returns whether the name of this probe, or of one of its parameters, choices or metrics, has been replaced."""
    return probe in _CHANGED


def present_probe(name: str) -> str:
    """Returns the present name of a probe."""
    return _PROBES.get(name, name)


def present_metric(probe: str, name: str) -> str:
    """Returns the present name of a metric. probe: its present name."""
    return _METRICS.get(probe, {}).get(name, name)


def present_parameters(probes: str, values: Mapping[str, T]) -> dict[str, T]:
    """Returns the values of parameters under present names, in order. probes: a present name, or a glob of several
    probes."""
    present = dict(values)
    for probe in _matching(probes):
        names, choices = _PARAMETERS.get(probe, {}), _CHOICES.get(probe, {})
        present = {
            names.get(name, name): _present_value(choices.get(name, {}), value) for name, value in present.items()
        }
    return present


def _matching(probes: str) -> Iterable[str]:
    """Returns the probes with replaced names that a name or glob matches."""
    return (probes,) if probes in _CHANGED else (probe for probe in _CHANGED if fnmatchcase(probe, probes))


def _present_value(choices: Mapping[str, str], value: Any) -> Any:
    """Returns the present form of a value, or of each value of a tuple."""
    if isinstance(value, tuple):
        return tuple(_present_value(choices, each) for each in value)
    return choices.get(value, value) if isinstance(value, str) else value


def present_row_names(rows: Mapping[str, T]) -> dict[str, T]:
    """Returns values by the present names of rows (as `row_name` returns them) or of groups of rows, which begin with
    probe and metric."""
    return {
        _present_row_name(name) if name.partition(" ")[0] in _CHANGED else _with_present_state(name): row
        for name, row in rows.items()
    }


def _with_present_state(name: str) -> str:
    """Returns the name of a row with the present word for the state of the core. The name of a group has no such
    word."""
    words = name.split(" ")
    if len(words) > _STATE:
        words[_STATE] = STATES.get(words[_STATE], words[_STATE])
    return " ".join(words)


def _present_row_name(name: str) -> str:
    """Returns the present name of a row or of a group of rows."""
    name = _with_present_state(name)
    words = [word for word in name.split(" ") if "=" not in word]
    parameters = dict(word.split("=", 1) for word in name.split(" ") if "=" in word)
    probe = present_probe(words[0])
    values = present_parameters(probe, parameters)
    return " ".join(
        [probe, *(present_metric(probe, word) for word in words[1:])]
        + [f"{key}={value}" for key, value in sorted(values.items())]
    )
