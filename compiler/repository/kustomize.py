"""Kustomizations of a repository, replaced by the output of `kustomize build`.

The build depends on the repository's files only: YAML and JSON, and any file in a folder with a kustomization. No
program and no address is available to it, so nothing remote is fetched. A folder with a kustomization is read through
it alone.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule
from compiler.repository.paths import KUSTOMIZATION_NAMES, ROOT_FOLDERS, printable_name

NOT_BUILT = declare_rule("GP133", "warning")
BUILD_FAILED = declare_rule("GP134", "error")
BUILT_MARK = b"# Built by kustomize from this folder.\n"
"""The first bytes of the content that replaces a built kustomization."""
TIMEOUT = 30
_LOGGED = re.compile(r'E\d{4} \d.*?] "command failed" err=["<](.*)[">]', re.DOTALL)
"""How kubectl logs a failed build, after the time and the number of the process."""


def with_built_kustomizations(files: Mapping[str, bytes]) -> tuple[Mapping[str, bytes], list[Diagnostic]]:
    """Return the files with each kustomization's folder replaced by its output, and a diagnostic for each failed
    build."""
    found = {posixpath.dirname(path): path for path in sorted(files) if _is_kustomization(path)}
    if not found:
        return files, []
    owned = [path for path in files if any(path.startswith(f"{folder}/") for folder in found)]
    left = {path: content for path, content in files.items() if path not in owned}
    tool, problems = _build_command(), list[Diagnostic]()
    with tempfile.TemporaryDirectory(prefix="gangplan-") as made:
        if tool:
            _write(Path(made), {path: files[path] for path in owned})
        for folder in _roots(files, found):
            built = _build_kustomization(tool, Path(made), folder, found[folder])
            if isinstance(built, Diagnostic):
                problems.append(built)
            else:
                left[found[folder]] = BUILT_MARK + built
    return dict(sorted(left.items())), problems


def _is_kustomization(path: str) -> bool:
    return posixpath.basename(path) in KUSTOMIZATION_NAMES and path.startswith(tuple(f"{top}/" for top in ROOT_FOLDERS))


def _roots(files: Mapping[str, bytes], found: Mapping[str, str]) -> list[str]:
    """Return the folders whose kustomizations are built: no other one refers to them, and they are not components."""
    referred, components = set[str](), set[str]()
    for folder, path in found.items():
        content = _content(files[path])
        if content.get("kind") == "Component":
            components.add(folder)
        for key in ("resources", "bases", "components"):
            referred.update(posixpath.normpath(posixpath.join(folder, entry)) for entry in _texts(content.get(key)))
    return sorted(found.keys() - referred - components)


def _content(text: bytes) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}  # for the build to complain of
    return content if isinstance(content, dict) else {}


def _texts(entries: object) -> Iterable[str]:
    return [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _build_command() -> list[str]:
    if tool := shutil.which("kustomize"):
        return [tool, "build"]
    return [tool, "kustomize"] if (tool := shutil.which("kubectl")) else []


def _write(top: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        if ".." in path.split("/"):
            continue  # a tree of git may hold any name
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(content)


def _build_kustomization(tool: list[str], top: Path, folder: str, path: str) -> bytes | Diagnostic:
    """Build the folder's kustomization; return its manifests, or the cause of the failure."""
    at = Position(printable_name(path), 1, 1)
    if not tool:
        message = f"the kustomization {printable_name(folder)} is not built: there is neither kustomize nor kubectl"
        return NOT_BUILT.diagnostic(at, message, "install kustomize, or commit what it builds")
    environment = {
        "PATH": "",
        "HOME": str(top),
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }
    try:
        done = subprocess.run(
            [*tool, str(top / folder)], capture_output=True, env=environment, timeout=TIMEOUT, check=False, cwd=top
        )
        code, output = done.returncode, done.stderr.decode("utf-8", "replace").strip()
    except subprocess.TimeoutExpired:
        code, output = 1, f"it did not end within {TIMEOUT} s"
    except OSError as problem:
        code, output = 1, problem.strerror or str(problem)
    if code == 0:
        return done.stdout
    for name in (str(top), os.path.realpath(top)):
        output = output.replace(f"{name}/", "").replace(name, ".")
    if logged := _LOGGED.fullmatch(output):
        output = logged[1].replace('\\"', '"').strip()
    help = f"correct it; it has the files below {' and '.join(ROOT_FOLDERS)} alone, built without network"
    message = f"the kustomization cannot be built: {output or 'no message'}"
    return BUILD_FAILED.diagnostic(at, message, help, object=f"Kustomization {printable_name(folder)}")
