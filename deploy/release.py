"""Builds and checks everything of one version: `scripts/release VERSION [--dry-run]`.

All artifacts are built from the files of one commit, in an empty folder, and carry its time, so the same commit gives
the same bytes. Each way of installing is tried: the wheel in an environment of its own, the chart with Helm.
"""

from __future__ import annotations

import email
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import yaml

from compiler.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGES = ("compiler", "reconciler", "solver")
SHELLS = ("bash", "zsh", "fish")
KUBERNETES = "1.30.0"
"""The oldest that the chart takes; a Helm that was not built by its makers takes itself for a client of 1.20."""
PLATFORMS = "linux/amd64,linux/arm64"
_SEMANTIC_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_HIDDEN_VARIABLES = ("PYTHONPATH", "VIRTUAL_ENV", "PIP_CONSTRAINT", "PIP_REQUIREMENT")
"""Variables that would show the tried artifact its caller's environment."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release under way. commit: its full hash. time: of the commit, in seconds since 1970. source: its files.
    output: the folder that is filled."""

    version: str
    commit: str
    time: int
    source: Path
    output: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the programs that build: the commit's time, and nothing of the caller."""
        kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN_VARIABLES}
        return {**kept, "SOURCE_DATE_EPOCH": str(self.time)}

    def run(self, *command: str | Path, folder: Path | None = None) -> str:
        """Return the standard output. Raises click.ClickException with the error output for a failure."""
        line = [str(part) for part in command]
        done = subprocess.run(
            line, cwd=folder or self.source, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise click.ClickException(f"{' '.join(line)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def obstacles(version: str, changelog: str, *, is_clean: bool, is_dry: bool) -> list[str]:
    """Return why this version cannot be released, each with its fix. A dry run may have changes that are not committed,
    and a changelog whose section is not named yet."""
    found = []
    if not _SEMANTIC_VERSION.fullmatch(version):
        found.append(f"{version!r} is no version. Fix: write MAJOR.MINOR.PATCH, as in 1.4.0 or 1.4.0rc1")
    elif version != VERSION:
        found.append(
            f"the sources are version {VERSION}. Fix: set VERSION in compiler/version.py to {version!r}, run "
            "`python -m deploy.generate`, and commit both"
        )
    if not is_dry and not is_clean:
        found.append("the work tree has changes that are not committed. Fix: commit them")
    heading = next((line for line in changelog.splitlines() if line.startswith("## ")), "")
    wanted = re.compile(rf"## {re.escape(version)} - \d{{4}}-\d\d-\d\d")
    if not wanted.fullmatch(heading) and not (is_dry and heading == "## Unreleased"):
        found.append(f"CHANGELOG.md begins with {heading!r}. Fix: name the section '## {version} - YYYY-MM-DD'")
    return found


def build_python(release: Release) -> None:
    """The wheel and the source archive, checked by twine."""
    release.run(sys.executable, "-m", "build", "--no-isolation", "--outdir", release.output, ".")
    (archive,) = release.output.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        members = [(member, packed.extractfile(member)) for member in packed.getmembers() if member.isfile()]
        files = {member.name: (file.read() if file else b"", member.mode) for member, file in members}
    write_archive(archive, files, release.time)
    (wheel,) = release.output.glob("*.whl")
    check_wheel(wheel)
    release.run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive)


def check_wheel(wheel: Path) -> None:
    """Check that the wheel is marked as typed, and has the licences of third-party parts."""
    with zipfile.ZipFile(wheel) as packed:
        names = frozenset(packed.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        licences = email.message_from_bytes(packed.read(metadata)).get_all("License-File") or []
    missing = [name for name in (f"{package}/py.typed" for package in PACKAGES) if name not in names]
    missing += [name for name in ("LICENSE", "compiler/openapi/README.md") if name not in licences]
    if missing:
        raise click.ClickException(f"{wheel.name} lacks {', '.join(missing)}")


def write_archive(target: Path, files: dict[str, tuple[bytes, int]], time: int) -> None:
    """A .tar.gz with these files ({path: (bytes, mode)}), the same bytes for the same files."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name, (text, mode) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(text), time, 0o755 if mode & 0o100 else 0o644
            packed.addfile(member, io.BytesIO(text))
    target.write_bytes(gzip.compress(plain.getvalue(), mtime=time))


def files_below(folder: Path, prefix: str) -> dict[str, tuple[bytes, int]]:
    found = (file for file in folder.rglob("*") if file.is_file())
    return {f"{prefix}/{file.relative_to(folder)}": (file.read_bytes(), file.stat().st_mode) for file in found}


def kustomize_files(deploy: Path) -> list[str]:
    """Return the kustomization, and the files that it names."""
    named = yaml.safe_load((deploy / "kustomization.yaml").read_text())
    configurations = (name for made in named["configMapGenerator"] for name in made["files"])
    return ["kustomization.yaml", *named["resources"], *configurations]


def build_chart(release: Release, helm: Path | None) -> None:
    """The Helm chart, and the kustomize base next to it. With Helm the packed chart is linted and rendered."""
    deploy = release.source / "deploy"
    chart = release.output / f"gangplan-{release.version}.tgz"
    write_archive(chart, files_below(deploy / "chart", "gangplan"), release.time)
    base = {f"gangplan/{name}": ((deploy / name).read_bytes(), 0o644) for name in kustomize_files(deploy)}
    write_archive(release.output / f"gangplan-kustomize-{release.version}.tar.gz", base, release.time)
    if helm is None:
        click.echo("no helm on the path: the chart is packed, and neither linted nor rendered", err=True)
        return
    release.run(helm, "lint", "--strict", "--kube-version", KUBERNETES, chart)
    rendered = release.run(
        helm, "template", "gangplan", chart, "--namespace", "gangplan-system", "--kube-version", KUBERNETES
    )
    if f"gangplan:{release.version}" not in rendered:
        raise click.ClickException(f"the chart does not install the image gangplan:{release.version}")


def build_image(release: Release, base: str | None) -> None:
    """The image, as an OCI archive of two platforms."""
    archive = release.output / f"gangplan-image-{release.version}.tar"
    engine = shutil.which("docker")
    answers = engine and not subprocess.run([engine, "info"], capture_output=True, check=False).returncode
    if not answers or base is None:
        reason = "no container engine answers" if not answers else "no --base names the image to build on"
        click.echo(f"{reason}: the image is not built; tests/unit/deploy/test_image.py runs its steps", err=True)
        return
    build = ("docker", "buildx", "build", "--file", "deploy/Dockerfile", "--platform", PLATFORMS)
    tag = f"gangplan:{release.version}"
    release.run(*build, "--build-arg", f"BASE={base}", "--tag", tag, "--output", f"type=oci,dest={archive}", ".")


def try_wheel(release: Release) -> None:
    """Install the wheel in an environment of its own, with the constraints; there the manual, the completions and the
    bill of materials are made, and a first repository is planned."""
    with tempfile.TemporaryDirectory(prefix="gangplan-release-") as place:
        folder = Path(place)
        venv.create(folder / "venv")
        programs = folder / "venv" / "bin"
        (wheel,) = release.output.glob("*.whl")
        pip = (sys.executable, "-m", "pip", "--python", programs / "python", "--disable-pip-version-check")
        release.run(*pip, "install", "--quiet", "--no-compile", "-c", release.source / "constraints.txt", wheel)
        installed = json.loads(release.run(*pip, "inspect", "--local", folder=folder))["installed"]
        gangplan = programs / "gangplan"
        found = json.loads(release.run(gangplan, "version", "-o", "json", folder=folder))
        if (found["version"], found["commit"]) != (release.version, release.commit):
            raise click.ClickException(f"the installed wheel says that it is {found}")
        release.run(gangplan, "init", folder / "first")
        if "start" not in release.run(gangplan, "plan", "--repo", folder / "first", folder=folder):
            raise click.ClickException("the installed wheel starts no job of `gangplan init`")
        for shell in SHELLS:
            script = release.run(gangplan, "completion", shell, folder=folder)
            (release.output / f"gangplan.{shell}").write_text(script)
    bill = json.dumps(bill_of_materials(release, installed), indent=2)
    (release.output / f"gangplan-{release.version}.cdx.json").write_text(f"{bill}\n")


def bill_of_materials(release: Release, installed: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the contents of an environment with gangplan, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json).

    installed: the output of `pip inspect`.
    """
    components = []
    for each in installed:
        name, version = each["metadata"]["name"], each["metadata"]["version"]
        if name == "gangplan":
            continue
        reference = f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{version}"
        licence = each["metadata"].get("license_expression")
        components.append(
            {
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": version,
                "purl": reference,
                **({"licenses": [{"expression": licence}]} if licence else {}),
            }
        )
    reference = f"pkg:pypi/gangplan@{release.version}"
    product = {"type": "application", "bom-ref": reference, "name": "gangplan", "version": release.version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**product, "purl": reference}},
        "components": sorted(components, key=lambda each: str(each["purl"])),
    }


def write_manual(release: Release) -> None:
    """A page of the manual for each command, as click_man writes them."""
    from click_man.core import generate_man_page

    from compiler.cli.root import cli

    import_module("reconciler.cli")  # adds the commands of a cluster
    with click.Context(cli, info_name="gangplan") as context:
        commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    known = {name: command for name, command in commands.items() if command is not None}
    for name, command in known.items():
        command.short_help = cli.lazy_commands[name][1]
    purpose = "plans gangs for Kubernetes and Volcano from a git repository"
    whole = click.Group("gangplan", known, params=cli.params, help=cli.help, short_help=purpose)
    context = click.Context(whole, info_name="gangplan")
    pages = [context, *(click.Context(each, context, name) for name, each in known.items())]
    folder = release.output / "man"
    folder.mkdir()
    date = datetime.fromtimestamp(release.time, UTC).date().isoformat()
    for page in pages:
        name = page.command_path.replace(" ", "-")
        (folder / f"{name}.1").write_text(generate_man_page(page, release.version, date))


def write_checksums(release: Release) -> list[Path]:
    """SHA256SUMS of every file, which `sha256sum --check` reads; the files."""
    files = sorted(file for file in release.output.rglob("*") if file.is_file())
    rows = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(release.output)}\n" for file in files]
    (release.output / "SHA256SUMS").write_text("".join(rows))
    return files


def publish_commands(release: Release) -> Sequence[str]:
    """Return the commands that publish the folder, to be run by hand."""
    version, folder = release.version, release.output
    commands = [
        f"git push origin v{version}",
        f"twine upload {folder}/*.whl {folder}/gangplan-{version}.tar.gz",
        f"helm push {folder}/gangplan-{version}.tgz oci://REGISTRY/charts",
    ]
    if (release.output / f"gangplan-image-{version}.tar").exists():
        commands.append(
            f"skopeo copy --all oci-archive:{folder}/gangplan-image-{version}.tar docker://REGISTRY/gangplan:{version}"
        )
    return commands


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _commit_to_build(*, is_dry: bool) -> str:
    """HEAD; in a dry run a commit of the work tree where it differs, which no branch holds."""
    return (_git("stash", "create") if is_dry else "") or _git("rev-parse", "HEAD")


@click.command()
@click.argument("version")
@click.option("--dry-run", is_flag=True, help="Build and check, and set no tag; the work tree may have changes")
@click.option("--base", help="Image to build on, with its digest: python:3.12-slim@sha256:.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder to fill; emptied first [default: dist/VERSION]")
@click.option("--helm", type=click.Path(exists=True, path_type=Path), help="[default: helm on the path]")
def release(version: str, dry_run: bool, base: str | None, output: Path | None, helm: Path | None) -> None:
    """Build and check everything of VERSION, and tag the commit."""
    is_clean = not _git("status", "--porcelain", "--untracked-files=no")
    found = obstacles(version, (ROOT / "CHANGELOG.md").read_text(), is_clean=is_clean, is_dry=dry_run)
    if found:
        raise click.ClickException("\n".join(found))
    commit, output = _commit_to_build(is_dry=dry_run), (output or DIST / version).absolute()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="gangplan-source-") as place:
        made = Release(version, commit, int(_git("show", "-s", "--format=%ct", commit)), Path(place), output)
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "--extract"], cwd=made.source, input=packed, check=True)
        build_python(made)
        build_chart(made, helm or (Path(found_helm) if (found_helm := shutil.which("helm")) else None))
        build_image(made, base)
        try_wheel(made)
        write_manual(made)
    for file in write_checksums(made):
        click.echo(f"{file.stat().st_size:>12,}  {file.relative_to(output)}")
    if not dry_run:
        _git("tag", "--annotate", f"v{version}", "--message", f"gangplan {version}", commit)
        click.echo("\nTo publish:\n" + "\n".join(f"  {command}" for command in publish_commands(made)))


if __name__ == "__main__":
    release()
