# SPDX-License-Identifier: Apache-2.0
"""By how much runs differ where a machine has no history yet: standard deviations of logarithms between runs.

Measured by `bench/tomorrow.py usual` on one quiet guest of two Zen 5 CPUs: twelve runs of 4 s, one after the other.
"""

USUAL_RUNS_SD = 0.01
"""Of a probe that is not below, and of rows whose data exceed the private caches."""
USUAL: dict[str, float] = {
    "kernel.call_object": 0.0031,
    "kernel.clock_read": 0.0030,
    "kernel.enter_syscall": 0.0076,
    "kernel.function_call": 0.0031,
    "kernel.page_fault": 0.0030,
    "kernel.process_create": 0.0072,
    "kernel.signal_self": 0.0038,
    "memory.latency": 0.0030,
}
