"""The image of deploy/Dockerfile: its steps run, and what they make works as its user, who may write almost nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from deploy.generate import FOLDER
from tests.builders.image import Image
from tests.builders.kubeconfigs import write_kubeconfig
from tests.builders.mounts import CAN_MOUNT

ROOT = FOLDER.parent
BASE = "python:3.12-slim@sha256:0"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("image"),
    pytest.mark.skipif(not CAN_MOUNT, reason="needs root and mount namespaces"),
]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that any user may read, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="gangplan-image-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def image(folder: Path) -> Image:
    made = Image(folder, ROOT, BASE)
    made.build((FOLDER / "Dockerfile").read_text())
    return made


@pytest.fixture(scope="module")
def run(image: Image, folder: Path) -> Run:
    """Run in the image as in the pod of deploy/: its volumes may be written, nothing else. The living example is a
    repository next to it."""
    repository = folder / "repository"
    for name in ("cluster-specs", "jobs"):
        shutil.copytree(ROOT / name, repository / name)
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "example")):
        identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
        subprocess.run(["git", *identity, *command], cwd=repository, check=True)
    pod = next(yaml.safe_load_all((FOLDER / "deployment.yaml").read_text()))["spec"]["template"]["spec"]
    writable = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
    (container,) = pod["containers"]
    volumes = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in writable]
    return lambda *arguments: image.run(arguments, volumes, {"/repository": repository})


def test_the_user_has_a_name_and_may_write_nothing_but_the_volumes(image: Image, run: Run) -> None:
    assert run("id", "-un").stdout == "gangplan\n"
    for place in ("/venv", "/etc", "/repository", "/"):
        assert "Read-only" in run("touch", f"{place}/file").stderr
    for place in ("/data", "/tmp"):
        assert run("touch", f"{place}/file").returncode == 0
    assert image.entrypoint == ["gangplan"]


def test_what_is_installed_is_what_was_pinned(run: Run) -> None:
    pinned = {line.replace("==", " ") for line in (ROOT / "constraints.txt").read_text().lower().splitlines()}
    text = run("python", "-m", "pip", "list", "--format=json").stdout
    installed = {f"{each['name']} {each['version']}".lower() for each in json.loads(text)}
    assert {line for line in installed - pinned if not line.startswith(("gangplan ", "pip ", "setuptools "))} == set()
    assert "opentelemetry-sdk" in text


def test_the_commands_work(run: Run) -> None:
    shown = run("gangplan", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "reconcile" in shown.stdout
    checked = run("gangplan", "check", "--repo", "/repository")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("kubeconfig", "message"),
    [("/nowhere", "/nowhere"), ("/repository/kubeconfig", "was refused - did you specify the right host or port?")],
)
def test_a_cluster_that_cannot_be_reached_is_one_line(folder: Path, run: Run, kubeconfig: str, message: str) -> None:
    write_kubeconfig(folder / "repository", "http://127.0.0.1:1")
    once = ("reconcile", "--once", "--repo", "/repository", "--cluster", "demo", "--data", "/data")
    done = run("gangplan", *once, "--kubeconfig", kubeconfig)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert message in json.loads(done.stderr)["message"]
