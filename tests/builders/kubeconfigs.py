"""A kubeconfig of one cluster, user and context, "here"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TOKEN = "secret-token"  # noqa: S105 (of no server)


def write_kubeconfig(folder: Path, server: str, user: Mapping[str, Any] | None = None, **cluster: Any) -> Path:
    """Write the file of this name into the folder. user: its credentials, else a token. cluster: more of what it says
    of the cluster."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": TOKEN} if user is None else user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "here",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path
