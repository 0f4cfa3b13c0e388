"""Copies of modules that Python need not compile again."""

from __future__ import annotations

import os
import shutil
from importlib.util import cache_from_source
from pathlib import Path


def share_compiled(own: Path, copy: Path) -> None:
    """Give each module below `copy` what Python compiled of the same one below `own`, if it did: compiling what a test
    loads takes longer than the test. The copied modules get the times of their originals, by which Python knows."""
    for module in copy.rglob("*.py"):
        original = own / module.relative_to(copy)
        compiled = Path(cache_from_source(str(original)))
        if compiled.exists() and original.read_bytes() == module.read_bytes():
            times = original.stat()
            os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))
            target = Path(cache_from_source(str(module)))
            target.parent.mkdir(exist_ok=True)
            shutil.copy(compiled, target)
