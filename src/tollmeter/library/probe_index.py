# SPDX-License-Identifier: Apache-2.0
"""Prints the index of the probes, from the probes built for this machine's first ABI: `make index`."""

from __future__ import annotations

import sys

from tollmeter.catalog import index_of
from tollmeter.library import places
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Select

if __name__ == "__main__":
    sys.stdout.buffer.write(index_of(places.made_ready([], [], ProbeRequest([Select(probe="*")], brings=False))))
