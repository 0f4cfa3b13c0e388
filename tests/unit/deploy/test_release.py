"""`scripts/release`: what it refuses, and the folder that it leaves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.version import VERSION
from deploy.release import ROOT, obstacles, release, write_archive
from tests.builders.image import pinned_wheels
from tests.controlplane.helm import helm

NAMED = f"# Changelog\n\n## {VERSION} - 2026-11-26\n"
UNNAMED = "# Changelog\n\n## Unreleased\n"


@pytest.mark.parametrize(
    ("version", "changelog", "is_clean", "is_dry", "named"),
    [
        (VERSION, NAMED, True, False, []),
        (VERSION, UNNAMED, False, True, []),
        (VERSION, UNNAMED, True, False, ["CHANGELOG.md begins with"]),
        (VERSION, NAMED, False, False, ["the work tree has changes"]),
        ("9.9.9", NAMED, True, True, ["the sources are version", "CHANGELOG.md begins with"]),
        ("1.0", NAMED, True, True, ["'1.0' is no version", "CHANGELOG.md begins with"]),
    ],
)
def test_all_that_is_in_the_way_is_named_with_its_fix(
    version: str, changelog: str, is_clean: bool, is_dry: bool, named: list[str]
) -> None:
    found = obstacles(version, changelog, is_clean=is_clean, is_dry=is_dry)
    assert [each[: len(text)] for each, text in zip(found, named, strict=True)] == named
    assert all("Fix: " in each for each in found)


def test_an_archive_is_the_same_for_the_same_files(tmp_path: Path) -> None:
    for name, order in (("a", ("x", "y")), ("b", ("y", "x"))):
        write_archive(tmp_path / name, {path: (path.encode(), 0o600) for path in order}, 1_000_000_000)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.slow
@pytest.mark.xdist_group("installation")
def test_a_dry_run_leaves_what_pip_and_helm_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(pinned_wheels(ROOT)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # after the wheels were loaded
    folder = tmp_path / "made"
    done = CliRunner().invoke(release, [VERSION, "--dry-run", "--output", str(folder), "--helm", str(helm())])
    assert done.exit_code == 0, done.output
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    named = {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert {
        f"gangplan-{VERSION}-py3-none-any.whl",
        f"gangplan-{VERSION}.tar.gz",
        f"gangplan-{VERSION}.tgz",
        f"gangplan-kustomize-{VERSION}.tar.gz",
        f"gangplan-{VERSION}.cdx.json",
        "gangplan.bash",
        "man/gangplan.1",
        "man/gangplan-plan.1",
    } <= named
    bill = json.loads((folder / f"gangplan-{VERSION}.cdx.json").read_text())
    assert {"highspy", "pulp", "click"} <= {each["name"].lower() for each in bill["components"]}
    manual = (folder / "man" / "gangplan.1").read_text()
    assert "Show what would start where, and what waits and why." in manual
    assert "..." not in manual.partition(".SH COMMANDS")[2]


def test_pages_for_ci_name_this_version() -> None:
    text = (ROOT / "docs" / "tasks" / "review-a-pull-request.md").read_text()
    assert text.count(f"v{VERSION}") >= 3


def test_bullets_of_the_changelog_are_short() -> None:
    bullets = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("- ")]
    assert bullets
    assert [bullet for bullet in bullets if len(bullet.split()) > 21] == []
