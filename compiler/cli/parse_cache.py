"""What files said when they were last read, in the user's cache folder: an unchanged file is not parsed again.

One pack per repository: (name and content of a file, digest) -> its documents and diagnostics, and what the last run
found, with its rules, which is told again where nothing changed. It is written to a new file and renamed, so that runs
at the same time see a whole pack, and the last one stays; deleting it costs time only.
A pack of other code, of another Python or of another user is not read. GANGPLAN_NO_CACHE switches all of it off.
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
from typing import TYPE_CHECKING, Any

from compiler.diagnostics import RULES, Diagnostic, Position, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compiler.repository import Repository
    from compiler.syntax.parse import Adopt, ParsedFile

OFF_VARIABLE = "GANGPLAN_NO_CACHE"
_DIGEST_BYTES = 32


def cache_folder() -> Path:
    """The folder of the packs; XDG_CACHE_HOME holds the user's choice."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangplan" / "parsed"


def _code_digest() -> bytes:
    """Of Python and of all files of the compiler, by size and time of change."""
    found = [sys.version]
    for folder, folders, files in os.walk(Path(__file__).parent.parent):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            status = os.stat(os.path.join(folder, name))
            found.append(f"{folder} {name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).digest()


def _run_digest(tree: Repository, cluster: str | None) -> bytes:
    """Of all that the findings on a repository come from."""
    found = hashlib.sha256(repr((cluster, tree.problems, sorted(tree.commit_dates.items()), tree.named)).encode())
    for name in sorted(tree.files):
        found.update(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())
        found.update(hashlib.sha256(tree.files[name]).digest())
    return found.digest()


class ParseCache:
    """Parses files, or remembers what they said. `save` keeps what this run has used: the files, which of them the API
    server takes, and the findings of the last run."""

    def __init__(self, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(os.path.abspath(root))).hexdigest()[:32]
        self.path = cache_folder() / f"{name}.pack"
        self.code = _code_digest()
        self.known, self.sound, self._last_run = self._load()
        self.used: dict[bytes, bytes] = {}
        self._given: dict[bytes, ParsedFile] = {}

    def _load(self) -> _Pack:
        try:
            if self.path.stat().st_uid != os.getuid():
                return _EMPTY
            content = self.path.read_bytes()
        except OSError:
            return _EMPTY
        body = memoryview(content)[_DIGEST_BYTES:]
        if hashlib.sha256(self.code + body).digest() != content[:_DIGEST_BYTES]:
            return _EMPTY
        found: _Pack = marshal.loads(body)  # noqa: S302  # of this user, and of this code by its digest
        return found

    def findings(self, tree: Repository, cluster: str | None) -> tuple[Diagnostic, ...] | None:
        """What the last run found, if it was about the same."""
        digest, found, rules = self._last_run
        if digest != _run_digest(tree, cluster):
            return None
        for fields in rules:  # what declares them is not imported in this run
            rule = Rule(*fields)
            RULES.setdefault(rule.code, rule)
        return tuple(_diagnostic(*fields) for fields in found)

    def parse(self, file: str, content: bytes, adopt: Adopt) -> ParsedFile:
        """As `parse_file`."""
        key = hashlib.sha256(file.encode("utf-8", "surrogateescape") + b"\0" + content).digest()
        entry = self.used.get(key) or self.known.get(key)
        if entry is not None:
            self.used[key] = entry
            parsed = _restored(marshal.loads(entry))  # noqa: S302  # see _load
            parsed.is_sound = key in self.sound
        else:
            from compiler.syntax import parse

            parsed = parse.parse_file(file, content, adopt)
            with contextlib.suppress(ValueError):  # a value that marshal does not know: it is parsed each time
                self.used[key] = marshal.dumps(_plain(parsed))
        self._given[key] = parsed
        return parsed

    def save(self, tree: Repository, cluster: str | None, found: Sequence[Diagnostic]) -> None:
        """Write the pack. A folder that cannot be written is none of the user's concern."""
        sound = frozenset(key for key, parsed in self._given.items() if parsed.is_sound)
        rules = [astuple(RULES[code]) for code in sorted({diagnostic.code for diagnostic in found})]
        last_run = _run_digest(tree, cluster), [astuple(diagnostic) for diagnostic in found], rules
        body = marshal.dumps((self.used, sound, last_run))
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self.path.parent, delete=False) as file:
                file.write(hashlib.sha256(self.code + body).digest())
                file.write(body)
            os.replace(file.name, self.path)


_Fields = tuple[Any, ...]
_Pack = tuple[dict[bytes, bytes], frozenset[bytes], tuple[bytes, list[_Fields], list[_Fields]]]
_EMPTY: _Pack = ({}, frozenset(), (b"", [], []))


def _plain(parsed: ParsedFile) -> Any:
    """As tuples of plain data, which marshal writes and reads faster than anything else."""
    documents = [
        ((d.file, d.line, d.text, d.data, dict(d.positions), d.item_path), failed) for d, failed in parsed.documents
    ]
    return documents, [astuple(diagnostic) for diagnostic in parsed.diagnostics]


def _restored(plain: Any) -> ParsedFile:
    from compiler.syntax.documents import Document
    from compiler.syntax.parse import ParsedFile

    documents, diagnostics = plain
    return ParsedFile(
        [(Document(*fields), failed) for fields, failed in documents],
        [_diagnostic(*fields) for fields in diagnostics],
    )


def _diagnostic(code: str, severity: Any, position: Any, message: str, help: str, *rest: Any) -> Diagnostic:
    subject, see, cause = rest
    second = Position(*see) if see is not None else None
    return Diagnostic(code, severity, Position(*position), message, help, subject, second, cause)
