"""The operator's options of one reconciler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
    executor: str = "processes"
    git_max_size: int = 512
    git_trusted_keys: Path | None = None
    git_ignored_faults: tuple[str, ...] = ()
    webhook: str = ""
    webhook_secret: Path | None = None
    scheduler_metrics: str = ""
    scheduler_timeout: float = 180.0
    traces: str = ""
