"""gangplan as people install it: without constraints.txt, with the newest dependencies and with the oldest allowed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tests.builders.compiled import share_compiled
from tests.builders.git_source import Source
from tests.controlplane.build import cache_root

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = ("compiler", "reconciler", "solver")
SOLVING = ("mip", "models", "test_solve.py")
"""Of tests/unit/solver: where HiGHS and numpy are called, and whole plans. The rest computes with Python alone."""
PROGRAM = """
import sys
from importlib.metadata import entry_points
sys.argv[0] = "gangplan"
(program,) = entry_points(group="console_scripts", name="gangplan")
program.load()()
"""
"""As the program that pip writes."""
LOWER_BOUND = re.compile(r"([\w.-]+)>=([\w.]+).*")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("installation")]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contents of the wheel, as pip unpacks them (`scripts/release` and the image install it with pip)."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("packages")
    for name in PACKAGED:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    build = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=source, stdout=subprocess.DEVNULL, check=True)
    (wheel,) = source.glob("*.whl")
    shutil.unpack_archive(wheel, folder, "zip")
    share_compiled(ROOT, folder)
    return folder


@pytest.fixture(scope="module", params=["newest", "oldest"])
def python(request: pytest.FixtureRequest) -> Path:
    """The Python of an environment outside of the checkout, with gangplan's dependencies. They are installed when they
    change, and the newest once a day."""
    cache = cache_root().with_name("dependencies")
    environment = cache / f"{request.param}-{sys.version_info.major}.{sys.version_info.minor}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    newest = [*project["dependencies"], "pytest>=9,<9.2", "hypothesis"]
    oldest = [LOWER_BOUND.sub(r"\1==\2", each) for each in project["dependencies"]]
    wanted, day = (oldest, "") if request.param == "oldest" else (newest, str(date.today()))
    stamp, asked = environment / "asked-for.json", json.dumps([wanted, day])
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    if not stamp.exists() or stamp.read_text() != asked:
        if not Path(pip[0]).exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([*pip, "--upgrade", "--upgrade-strategy", "eager", *wanted], check=True)
        stamp.write_text(asked)
    return environment / "bin" / "python"


@pytest.fixture
def gangplan(python: Path, packages: Path) -> Callable[..., str]:
    """Run the wheel's command `gangplan` in a folder; its standard output."""

    def output_of(folder: Path, *arguments: str) -> str:
        done = subprocess.run(
            [python, "-c", PROGRAM, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(packages)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return output_of


def test_outputs_are_what_they_say(gangplan: Callable[..., str], tmp_path: Path) -> None:
    example = tmp_path / "example"
    for name in ("cluster-specs", "jobs"):
        shutil.copytree(ROOT / name, example / name)
    assert gangplan(example, "plan").startswith("Cluster demo")
    first = tmp_path / "first"
    source = Source(first)
    gangplan(first, "init", ".")
    source.commit()
    assert json.loads(gangplan(first, "plan", "-o", "json"))["kind"] == "Plan"
    assert json.loads(gangplan(first, "check", "-o", "sarif"))["version"] == "2.1.0"
    assert gangplan(first, "diff", "HEAD", "-o", "markdown").startswith("<!-- gangplan diff -->")


@pytest.mark.parametrize("python", ["newest"], indirect=True)
def test_the_solver_is_right(python: Path) -> None:
    tests = [f"tests/unit/solver/{name}" for name in SOLVING]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
