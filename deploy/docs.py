"""Writes the documentation as a site: `python -m deploy.docs build|serve` (scripts/docs).

The pages are the files of docs/ and what `deploy.reference` makes from the code. Zensical builds them from build/docs,
and stops at a link that leads nowhere.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from compiler.version import DOCS_URL
from deploy.pictures import frames_without_picture, picture_pages, with_frames

ROOT = Path(__file__).resolve().parents[1]
SOURCE, BUILD = ROOT / "docs", ROOT / "build"


def written_pages() -> dict[str, str]:
    """Return the hand-written pages: path below docs/ -> Markdown."""
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.md")}


def all_pages() -> dict[str, str]:
    """Return every page of the site."""
    from deploy.reference import reference_pages

    decisions = {name: text.splitlines()[0] for name, text in written_pages().items() if "/decisions/" in name}
    rows = [f"* [{title.removeprefix('# ')}]({Path(name).name})" for name, title in sorted(decisions.items())]
    index = "# Decisions\n\nWhy things are as they are, one short page each.\n\n" + "\n".join(rows) + "\n"
    return {**written_pages(), **reference_pages(), "develop/decisions/index.md": index}


def screenshots() -> list[str]:
    """Return the paths below docs/ of the pictures that a test makes on a cluster."""
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.png"))


def configuration() -> dict[str, object]:
    """Return mkdocs.yml with the address of the site."""
    found: dict[str, object] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return {**found, "site_url": f"{DOCS_URL}/", "docs_dir": "docs", "site_dir": "site"}


def write_sources(folder: Path, pages: Mapping[str, str]) -> Path:
    """Write what Zensical reads into the folder, the pictures as well. Return its configuration."""
    shutil.rmtree(folder / "docs", ignore_errors=True)
    framed = {name: with_frames(name, text) for name, text in pages.items()}
    for name, text in {**framed, **picture_pages(pages)}.items():
        file = folder / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for name in screenshots():
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCE / name, folder / "docs" / name)
    target = folder / "mkdocs.yml"
    target.write_text(json.dumps(configuration(), indent=2), encoding="utf-8")
    return target


def main(arguments: list[str]) -> int:
    command, *options = arguments or ["serve"]
    found = write_sources(BUILD, all_pages())
    code = subprocess.run([sys.executable, "-m", "zensical", command, "-f", found, *options], check=False).returncode
    if command == "build" and (empty := frames_without_picture(BUILD / "site")):
        print("frames without a picture:", *empty, sep="\n  ", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
