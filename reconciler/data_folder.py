"""The data folder: one process holds it alone, and it gives that process its name."""

from __future__ import annotations

import fcntl
import json
import socket
import uuid
from pathlib import Path
from typing import IO


class DataFolderInUse(Exception):
    """Another process works in the data folder."""


def lock_data_folder(data: Path) -> IO[str]:
    """Take the data folder for this process alone until the returned file is closed. Raises DataFolderInUse."""
    data.mkdir(parents=True, exist_ok=True)
    file = (data / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise DataFolderInUse(f"another reconciler works in {data}; give each its own --data") from error
    return file


def load_identity(data: Path) -> str:
    """The name of this reconciler to the lease, made on first use. It lives in the data folder, which one process holds
    alone: a restart there goes on at once, while a replica with another folder waits until the lease has run out."""
    path = data / "identity"
    try:
        return str(json.loads(path.read_text()))
    except (OSError, ValueError):
        name = f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(name))
        return name
