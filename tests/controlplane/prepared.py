"""What every cluster begins with, kept as a data folder of etcd: the API server's own objects, our first ones and all
types. To define the types again would be half of the work of starting."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Final

from tests.controlplane import quiet_user
from tests.controlplane.commands import Ports, component_commands
from tests.controlplane.rest import Json

_STORES: Final = ("etcd", "kube-apiserver")
"""The components that have a say in what the folder holds."""


def first_objects() -> list[tuple[str, Json]]:
    """Path and body of the objects that are created before the types."""
    return [
        ("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}}),
        (quiet_user.ROLES_PATH, quiet_user.role()),
        (quiet_user.BINDINGS_PATH, quiet_user.binding()),
    ]


def type_files(cache: Path) -> list[Path]:
    """The files of the types that every cluster has."""
    return sorted((cache / "crds").iterdir())


def without_descriptions(definition: Json) -> Json:
    """A type's definition without what its schemas say for people. A property may have that name."""
    if isinstance(definition, list):
        return [without_descriptions(each) for each in definition]
    if not isinstance(definition, dict):
        return definition
    kept = {key: part for key, part in definition.items() if not (key == "description" and isinstance(part, str))}
    return {key: without_descriptions(part) for key, part in kept.items()}


def prepared_folder(cache: Path) -> Path:
    """Where the data are, made or not. The name follows from all that goes into them; that of the cache from the
    programs."""
    commands = component_commands(Path("cache"), Path("work"), Ports(*range(len(Ports._fields))))
    said = [{name: commands[name] for name in _STORES}, first_objects(), "without descriptions"]
    digest = hashlib.sha256(json.dumps(said).encode())
    for file in type_files(cache):
        digest.update(file.read_bytes())
    return cache / f"prepared-{digest.hexdigest()[:16]}"


def copy_data(source: Path, target: Path) -> None:
    """Copy a data folder, but not the empty 60 MB that etcd keeps for what it writes next."""
    subprocess.run(["cp", "--recursive", "--sparse=always", source, target], check=True)
