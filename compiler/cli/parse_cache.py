"""What files said when they were last read, in the user's cache folder: an unchanged file is not parsed again.

One pack per repository: (name and content of a file, digest) -> its documents and diagnostics. It is written to a new
file and renamed, so that runs at the same time see a whole pack, and the last one stays; deleting it costs time only.
A pack of other code, of another Python or of somebody else is not read. GANGPLAN_NO_CACHE switches all of it off.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from dataclasses import astuple
from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic, Position
from compiler.syntax.documents import Document
from compiler.syntax.parse import Adopt, ParsedFile, parse_file

OFF_VARIABLE = "GANGPLAN_NO_CACHE"
READERS = (
    "diagnostics/__init__.py",
    "syntax/documents.py",
    "syntax/parse.py",
    "syntax/scalars.py",
    "syntax/yaml_reader.py",
    "kinds/scheduler_file.py",
    "volcano/scheduler_conf.py",
    "cli/parse_cache.py",
)
"""Files of the compiler by which a parsed file may change."""
_DIGEST_BYTES = 32


def cache_folder() -> Path:
    """The folder of the packs; XDG_CACHE_HOME holds the user's choice."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangplan" / "parsed"


def _code_digest() -> bytes:
    compiler = Path(__file__).parent.parent
    found = hashlib.sha256(sys.version.encode())
    for name in READERS:
        found.update((compiler / name).read_bytes())
    return found.digest()


class ParseCache:
    """Parses files, or remembers what they said. `save` keeps what this run has used."""

    def __init__(self, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(os.path.abspath(root))).hexdigest()[:32]
        self.path = cache_folder() / f"{name}.pack"
        self.code = _code_digest()
        self.known: dict[bytes, bytes] = self._load()
        self.used: dict[bytes, bytes] = {}

    def _load(self) -> dict[bytes, bytes]:
        try:
            if self.path.stat().st_uid != os.getuid():
                return {}
            content = self.path.read_bytes()
        except OSError:
            return {}
        body = memoryview(content)[_DIGEST_BYTES:]
        if hashlib.sha256(self.code + body).digest() != content[:_DIGEST_BYTES]:
            return {}
        known: dict[bytes, bytes] = marshal.loads(body)  # noqa: S302  # of this user, and of this code by its digest
        return known

    def parse(self, file: str, content: bytes, adopt: Adopt) -> ParsedFile:
        """As `parse_file`."""
        key = hashlib.sha256(file.encode("utf-8", "surrogateescape") + b"\0" + content).digest()
        entry = self.used.get(key) or self.known.get(key)
        if entry is not None:
            self.used[key] = entry
            return _restored(marshal.loads(entry))  # noqa: S302  # see _load
        parsed = parse_file(file, content, adopt)
        with contextlib.suppress(ValueError):  # a value that marshal does not know: it is parsed each time
            self.used[key] = marshal.dumps(_plain(parsed))
        return parsed

    def save(self) -> None:
        """Write the pack where it changed. A folder that cannot be written is none of the user's concern."""
        if self.used.keys() == self.known.keys():
            return
        body = marshal.dumps(self.used)
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self.path.parent, delete=False) as file:
                file.write(hashlib.sha256(self.code + body).digest())
                file.write(body)
            os.replace(file.name, self.path)


def _plain(parsed: ParsedFile) -> Any:
    """As tuples of plain data, which marshal writes and reads faster than anything else."""
    documents = [
        ((d.file, d.line, d.text, d.data, dict(d.positions), d.item_path), failed) for d, failed in parsed.documents
    ]
    return documents, [astuple(diagnostic) for diagnostic in parsed.diagnostics]


def _restored(plain: Any) -> ParsedFile:
    documents, diagnostics = plain
    return ParsedFile(
        [(Document(*fields), failed) for fields, failed in documents],
        [_diagnostic(*fields) for fields in diagnostics],
    )


def _diagnostic(code: str, severity: Any, position: Any, message: str, help: str, *rest: Any) -> Diagnostic:
    subject, see, cause = rest
    second = Position(*see) if see is not None else None
    return Diagnostic(code, severity, Position(*position), message, help, subject, second, cause)
