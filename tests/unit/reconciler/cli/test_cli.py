"""The `gangplan` command starts fast: it loads only what the command at hand needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
HEAVY = ("git", "kubernetes", "prometheus_client", "urllib3")


def test_reading_a_folder_loads_neither_git_nor_kubernetes(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from reconciler.cli import load_tree; "
        f"load_tree(Path({str(tmp_path)!r})); print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
