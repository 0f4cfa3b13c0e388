"""Pages of docs/ as what is done with them: commands that run as written, what they print, and pictures."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.e2e.stories.story import ROOT

DOCS = ROOT / "docs"
PIECES = re.compile(r"```sh\n(.*?)```(?:\s*```text\n(.*?)```)?|^!\[.*?\]\((.*?)\)", re.DOTALL | re.MULTILINE)
IDENTITY = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Piece(NamedTuple):
    """Commands and part of what they print, or the file of a picture below docs/."""

    commands: str
    text: str
    picture: str


def pieces(page: str) -> Iterator[Piece]:
    """The pieces of a page, in order. A `console` block needs what a test does not have, and is none."""
    return (Piece(*found) for found in PIECES.findall((DOCS / page).read_text()))


def command_environment(folder: Path) -> dict[str, str]:
    """Variables with this checkout's `gangplan` on the path, by a script in the folder."""
    (folder / "gangplan").write_text(f'#!/bin/sh\nexec {sys.executable} -m reconciler "$@"\n')
    (folder / "gangplan").chmod(0o755)
    return {"PYTHONPATH": str(ROOT), "PATH": f"{folder}{os.pathsep}/usr/bin:/bin", **IDENTITY}
