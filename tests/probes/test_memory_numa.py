# SPDX-License-Identifier: Apache-2.0
"""What the probes over memory nodes rest on, tried on the nodes that are here: lists of CPUs, binding, asking back."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from probes.visiting import executable
from storm.uses import numbers
from support import machine_trees
from support.waiting import LONG_S
from tollmeter.model import Abi
from tollmeter.protocol import outcome

REFUSED = 77
PROGRAM = """
#include <stdio.h>

#include "internal.h"
#include "numa.h"

const char toll_probe_name[] = "test.numa", toll_abi_name[] = "test", toll_build_flags[] = "none";

static int lists_are_read(void) {
  struct toll_set set;
  FILE *file = fopen(LIST, "we");
  if (!file || fputs("0-3,8,10-11\\n", file) < 0 || fclose(file) != 0 || !toll_read_set(LIST, &set)) return 0;
  for (int cpu = 0; cpu < 14; cpu++)
    if (toll_set_has(&set, cpu) != (cpu <= 3 || cpu == 8 || cpu == 10 || cpu == 11)) return 0;
  if (!(file = fopen(LIST, "we")) || fputs("none\\n", file) < 0 || fclose(file) != 0) return 0;
  if (toll_read_set(LIST, &set)) return 0;
  return !toll_set_has(&set, 0);
}

static int a_cpu_is_found(void) {
  int own[1] = {CPU}, none[1] = {4000};
  struct toll_run here = {.cpus = own, .cpu_count = 1}, nowhere = {.cpus = none, .cpu_count = 1};
  return numa_cpu_on(&here, NODE) == CPU && numa_cpu_on(&nowhere, NODE) == -1 && numa_cpu_on(&here, 63) == -1;
}

int main(void) {
  if (!lists_are_read()) return 1;
  if (!a_cpu_is_found()) return 2;
  if (toll_node_count() < 1 || toll_node_exists(63)) return 3;
  if (!toll_pin(CPU)) return 4;
  if (!numa_bind(NODE)) return 77;
  char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < 1 << 20; i += toll_page_bytes()) memory[i] = 0;
  touch_here(memory, 1 << 20);
  numa_unbind();
  if (numa_node_of(memory) == -1) return 77;
  return numa_node_of(memory) == NODE && numa_node_of((void *)8) == -1 ? 0 : 5;
}
"""


def node_of(cpu: int) -> int | None:
    nodes = list(Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
    return int(nodes[0].name[4:]) if nodes else None


@pytest.mark.machine
def test_memory_is_bound_to_a_node_and_found_there(root: Path, tmp_path: Path, own_abi: Abi, own_compiler: str) -> None:
    cpu = min(os.sched_getaffinity(0))
    node = node_of(cpu)
    if node is None:
        pytest.skip("the system tells of no memory nodes")
    source, program = tmp_path / "numa.c", tmp_path / "numa"
    source.write_text(PROGRAM, encoding="utf-8")
    flags = [
        *own_abi.flags,
        "-D_GNU_SOURCE",
        "-std=gnu11",
        f"-DCPU={cpu}",
        f"-DNODE={node}",
        f'-DLIST="{source}.list"',
        "-static",
    ]
    includes = [f"-I{root}/probes/runtime", f"-I{root}/probes/memory"]
    archive = root / "build" / own_abi.name / "libtoll.a"
    subprocess.run([own_compiler, *flags, *includes, source, archive, "-pthread", "-lm", "-o", program], check=True)
    status = subprocess.run([program], check=False, timeout=LONG_S).returncode
    if status == REFUSED:
        pytest.skip("the system refuses to bind memory to a node")
    assert status == 0


REFUSED_CALLS = {
    "move_pages": "the system refused to move pages: {why}",
    "set_mempolicy": "the system refused to bind memory to node 0",
    "get_mempolicy": "the system does not tell which memory node a page is on",
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="forbids by the numbers of x86-64")
@pytest.mark.parametrize(("how", "why"), [([], "Operation not permitted"), (["--lack"], "Function not implemented")])
@pytest.mark.parametrize("call", REFUSED_CALLS)
def test_a_move_of_pages_that_the_system_refuses_is_a_sentence(
    call: str, how: list[str], why: str, tmp_path: Path
) -> None:
    """As a container without CAP_SYS_NICE refuses it, or a kernel without memory nodes. The second node is made up."""
    forbidding, source = tmp_path / "forbidding", Path(__file__).with_name("forbidding.c")
    subprocess.run(["gcc", "-O1", source, "-o", forbidding], check=True)
    probe = executable("x86_64", "memory.page_move")
    words = ["--samples=2", "--sample-ns=1000", "--deadline-ms=60000", "node=0", "home=1", "pages=16"]
    command = [forbidding, *how, str(numbers()[call]), "--", probe, *words]
    environment = {"TOLL_SYSTEM_ROOT": str(machine_trees.XEON.write(tmp_path / "machine"))}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LONG_S)
    told = outcome(done.stdout)
    assert (told.status, told.reason) == ("unsupported", REFUSED_CALLS[call].format(why=why))
