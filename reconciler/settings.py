"""The operator's options of one reconciler, and its data folder, which one process holds alone."""

from __future__ import annotations

import fcntl
import json
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's options; times in seconds. git_max_size: MiB. git_trusted_keys, git_ignored_faults: as in
    `reconciler.git.mirror.Mirror`."""

    repo: str
    branch: str
    cluster: str
    namespace: str
    data: Path
    auth: Path | None = None
    poll: float = 30.0
    bind_timeout: float = 120.0
    node_timeout: float = 60.0
    listen: str = ""
    report: bool = False
    executor: str = "processes"
    git_max_size: int = 512
    git_trusted_keys: Path | None = None
    git_ignored_faults: tuple[str, ...] = ()
    webhook: str = ""
    webhook_secret: Path | None = None
    scheduler_metrics: str = ""
    scheduler_timeout: float = 180.0
    traces: str = ""

    @property
    def pages(self) -> Path | None:
        """Return the folder for the pages of plans; None where nobody is to read them."""
        return self.data / "pages" if self.report and self.listen else None


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
    """Return the name of this reconciler for the lease, created on first use. It is stored in the data folder, which
    one process holds alone. After a restart there it leads at once, while a replica with another folder waits until the
    lease has expired."""
    path = data / "identity"
    try:
        return str(json.loads(path.read_text()))
    except (OSError, ValueError):
        name = f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(name))
        return name
