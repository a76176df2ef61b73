# SPDX-License-Identifier: Apache-2.0
"""A guest's first file system, read back by the format's own rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tollmeter.targets.qemu_system import archive


def entries(packed: bytes) -> list[tuple[str, int, bytes]]:
    """Name, mode and content of each entry; believes nothing about alignment."""
    found, at = [], 0
    while True:
        assert packed[at : at + 6] == b"070701"
        numbers = [int(packed[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = numbers[1], numbers[6], numbers[11]
        name = packed[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        begin = -(-(at + 110 + name_size) // 4) * 4
        content = packed[begin : begin + size]
        assert len(content) == size
        if name == b"TRAILER!!!\0":
            return found
        found.append((name[:-1].decode(), mode, content))
        at = -(-(begin + size) // 4) * 4


@given(st.dictionaries(st.from_regex(r"/(a|b|c)/[a-z]{1,9}", fullmatch=True), st.binary(max_size=50), max_size=6))
def test_what_is_packed_is_found_with_its_folders_in_front(programs: dict[str, bytes]) -> None:
    found = entries(archive(programs, ("/dev",)))
    files = {f"/{name}": content for name, mode, content in found if mode == 0o100755}
    folders = [name for name, mode, _ in found if mode == 0o040755]
    assert files == programs
    assert "dev" in folders
    names = [name for name, _, _ in found]
    for path in programs:
        parent = path.strip("/").split("/")[0]
        assert names.index(parent) < names.index(path.strip("/"))
