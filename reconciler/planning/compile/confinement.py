"""What a child process may use: memory that fits beside its parent's in the pod, and only variables that it needs."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The limit of the container, in cgroup versions 2 and 1."""
CHILD_SHARE = 0.75
"""Of the memory; the rest is the reconciler's own."""
MOST, LEAST = 8 << 30, 1 << 30
"""Bytes that a child gets at most, and at least: below that no plan is made."""

_PASSED_VARIABLES = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
_PASSED_PREFIXES = ("LC_", "PYTHON", "DASK_", "OMP_", "OPENBLAS_", "COVERAGE_")


def available_memory(files: tuple[Path, ...] = CGROUP_FILES) -> int:
    """Bytes that this container may use: the cgroup's limit, or all of the machine's."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        return min(int(text), physical) if text.isdigit() else physical
    return physical


def child_memory_limit(available: int | None = None) -> int:
    """Bytes of address space for a child, so that it fails by itself before the kernel ends the whole container."""
    whole = available_memory() if available is None else available
    return max(LEAST, min(MOST, int(whole * CHILD_SHARE)))


def child_environment() -> dict[str, str]:
    """The variables of this process that a child needs; no credentials and no address of a cluster."""
    passed = _PASSED_VARIABLES.union(name for name in os.environ if name.startswith(_PASSED_PREFIXES))
    return {name: value for name, value in os.environ.items() if name in passed}
