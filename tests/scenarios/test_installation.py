"""gangplan as people install it: without constraints.txt, with the newest dependencies and with the oldest allowed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

from tests.builders.git_source import Source
from tests.controlplane.build import cache_root

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = ("compiler", "reconciler", "solver")
SOLVING = ("mip", "models", "test_solve.py")
"""Of tests/unit/solver: where HiGHS and numpy are called, and whole plans. The rest computes with Python alone."""
LOWER_BOUND = re.compile(r"([\w.-]+)>=([\w.]+).*")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("installation")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGED:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-w", source, source], check=True)
    return next(source.glob("*.whl"))


NEWEST = pytest.param("newest", marks=pytest.mark.deep("they change with the day, not with the commit"))


@pytest.fixture(scope="module", params=[NEWEST, "oldest"])
def installed(request: pytest.FixtureRequest, wheel: Path) -> Path:
    """The programs' folder of an environment outside of the checkout. Its dependencies are installed when they change,
    and the newest once a day."""
    cache = cache_root().with_name("installations")
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
    subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return environment / "bin"


def output_of(programs: Path, folder: Path, *arguments: str) -> str:
    """What `gangplan` writes to standard output."""
    command = [str(programs / "gangplan"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_outputs_are_what_they_say(installed: Path, tmp_path: Path) -> None:
    example = tmp_path / "example"
    for name in ("cluster-specs", "jobs"):
        shutil.copytree(ROOT / name, example / name)
    assert output_of(installed, example, "plan").startswith("Cluster demo")
    first = tmp_path / "first"
    source = Source(first)
    output_of(installed, first, "init", ".")
    source.commit()
    assert json.loads(output_of(installed, first, "plan", "-o", "json"))["kind"] == "Plan"
    assert json.loads(output_of(installed, first, "check", "-o", "sarif"))["version"] == "2.1.0"
    assert output_of(installed, first, "diff", "HEAD", "-o", "markdown").startswith("<!-- gangplan diff -->")


@pytest.mark.parametrize("installed", [NEWEST], indirect=True)
def test_the_solver_is_right(installed: Path) -> None:
    tests = [f"tests/unit/solver/{name}" for name in SOLVING]
    command = [str(installed / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
