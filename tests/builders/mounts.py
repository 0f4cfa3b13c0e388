"""Whether tests may have mounts of their own."""

from __future__ import annotations

import os
import subprocess

CAN_MOUNT = (
    os.getuid() == 0
    and subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0
)
