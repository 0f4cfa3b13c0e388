"""Contents of files when they were last read, in the user's cache folder: an unchanged file is not read again.

One pack per repository: digest of a file's name and content -> the result of reading it (`entries`), and the findings
of the last `check`. A file's content depends on its name and bytes alone, so that an entry is never stale; results
about several files, and the plan, are computed in each run. A pack is written to a new file and renamed, so that
concurrent runs see a whole pack, and the last one stays; deleting it costs time only. A pack of other code, of another
Python or of another user is not read. GANGPLAN_NO_CACHE switches all of it off.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from compiler.diagnostics.diagnostic import RULES, Diagnostic, Edit, Position, Rule
from compiler.diagnostics.guard import has_internal_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from compiler.cli.entries import Entry
    from compiler.repository.tree import Repository
    from compiler.syntax.documents import Document
    from compiler.syntax.parse import Adopt, ParsedFile

OFF_VARIABLE = "GANGPLAN_NO_CACHE"
_DIGEST_BYTES = 32


def cache_folder() -> Path | None:
    """Return the folder of the packs; XDG_CACHE_HOME holds the user's choice. None for a user without a home, such as a
    container's."""
    with contextlib.suppress(RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangplan" / "parsed"
    return None


def _code_digest() -> bytes:
    """Digest of Python, of the packages installed with it, and of all files of the compiler, by size and time of
    change."""
    packages = os.stat(Path(click.__file__).parent.parent)
    found = [sys.version, str(packages.st_mtime_ns)]
    for folder, folders, files in os.walk(Path(__file__).parent.parent):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            status = os.stat(os.path.join(folder, name))
            found.append(f"{folder} {name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).digest()


def _file_key(file: str, content: bytes) -> bytes:
    return hashlib.sha256(file.encode("utf-8", "surrogateescape") + b"\0" + content).digest()


class ReadingCache:
    """Reads files, or returns their cached contents. root: the repository whose pack it is; None for none. `save` keeps
    the entries that this run has used, `save_findings` also its findings."""

    def __init__(self, root: Path | None) -> None:
        self.path: Path | None = None
        self.code = b""
        folder = None if root is None or os.environ.get(OFF_VARIABLE) else cache_folder()
        if root is not None and folder is not None:
            name = hashlib.sha256(os.fsencode(os.path.abspath(root))).hexdigest()[:32]
            self.path, self.code = folder / f"{name}.pack", _code_digest()
        self._kept, self._last_run, rules = self._load()
        self.known = dict(self._kept)
        for fields in rules:  # what declares them may not be imported in this run
            RULES.setdefault(fields[0], Rule(*fields))
        self._codes = {fields[0] for fields in rules}
        self._given: dict[bytes, ParsedFile] = {}
        self._documents: dict[bytes, list[Document]] = {}

    def _load(self) -> _Pack:
        try:
            if self.path is None or self.path.stat().st_uid != os.getuid():
                return _EMPTY
            content = self.path.read_bytes()
        except OSError:
            return _EMPTY
        body = memoryview(content)[_DIGEST_BYTES:]
        if hashlib.sha256(self.code + body).digest() != content[:_DIGEST_BYTES]:
            return _EMPTY
        found: _Pack = marshal.loads(body)  # noqa: S302  # of this user, and of this code by its digest
        return found

    def _run_digest(self, tree: Repository, cluster: str | None) -> bytes:
        """Digest of everything that the findings on a repository depend on."""
        found = hashlib.sha256(repr((cluster, tree.problems, tree.named)).encode())
        for name in sorted(tree.files):
            found.update(_file_key(name, tree.files[name]))
        return found.digest()

    def findings(self, tree: Repository, cluster: str | None) -> tuple[Diagnostic, ...] | None:
        """The findings of the last run, if its inputs were the same."""
        digest, found = self._last_run
        if digest != self._run_digest(tree, cluster):
            return None
        return tuple(_diagnostic(*fields) for fields in found)

    def parse(self, file: str, content: bytes, adopt: Adopt) -> ParsedFile:
        """Parse a file as `parse_file` does, with its remembered specs and diagnostics where the file is known."""
        key = _file_key(file, content)
        if key not in self._given:
            self._given[key] = self._parse(key, file, content, adopt)
        return self._given[key]

    def _parse(self, key: bytes, file: str, content: bytes, adopt: Adopt) -> ParsedFile:
        if (entry := self.known.get(key)) is not None:
            from compiler.cli.entries import parsed_file

            return parsed_file(entry, file, partial(self._full_document, key, file, content, adopt))
        from compiler.syntax import parse

        return parse.parse_file(file, content, adopt)

    def _full_document(self, key: bytes, file: str, content: bytes, adopt: Adopt, at: int) -> Document:
        """Return a document of a remembered file in full."""
        if key not in self._documents:
            from compiler.cli.entries import entry_documents
            from compiler.syntax import parse

            found = entry_documents(self.known[key])
            if found is None:
                found = [document for document, _ in parse.parse_file(file, content, adopt).documents]
            self._documents[key] = found
        return self._documents[key][at]

    def read_ahead(self, files: Mapping[str, bytes]) -> Mapping[str, ParsedFile]:
        """Read the unknown files, if there are many, in several processes; `parse` then returns them. Returns the files
        read in this process."""
        from compiler.cli.entries import read_at_once

        keys = {file: _file_key(file, content) for file, content in files.items()}
        read, entries = read_at_once([(key, file, files[file]) for file, key in keys.items() if key not in self.known])
        self._given |= read
        self.known |= entries
        return {file: read[key] for file, key in keys.items() if key in read}

    def save_findings(self, tree: Repository, cluster: str | None, found: Sequence[Diagnostic]) -> None:
        """Write the pack, with the findings on the whole repository. An internal error is not stored."""
        if self.path is not None and not has_internal_error(found):
            self._last_run = self._run_digest(tree, cluster), [astuple(diagnostic) for diagnostic in found]
            self._write(self.path, self._entries(tree, found), found)

    def save(self, tree: Repository, found: Sequence[Diagnostic]) -> None:
        """Write the pack if it lacks a file that was read. found: the findings on the files read."""
        if self.path is not None and (entries := self._entries(tree, found)) != self._kept:
            self._write(self.path, entries, found)

    def _write(self, path: Path, entries: dict[bytes, Entry], found: Sequence[Diagnostic]) -> None:
        """Write the pack. A folder without write permission is ignored."""
        for each in (*found, *(each for parsed in self._given.values() for each in parsed.all_diagnostics())):
            self._codes.add(each.code)
        rules = [astuple(RULES[code]) for code in sorted(self._codes)]
        body = marshal.dumps((entries, self._last_run, rules))
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, (hashlib.sha256(self.code + body).digest(), body))

    def _entries(self, tree: Repository, found: Sequence[Diagnostic]) -> dict[bytes, Entry]:
        """Entries of the repository's files as far as they are known; with their documents where something was found on
        them, or asked for them."""
        from compiler.cli.entries import file_entry, with_documents

        places = (place for each in found for place in (each.position, each.see))
        named = {place.file for place in places if place is not None}
        keys = [_file_key(file, tree.files[file]) for file in tree.manifests()]
        entries = {key: self.known[key] for key in keys if key in self.known}
        for key, parsed in self._given.items():
            is_fresh = key not in self.known
            entry = file_entry(parsed) if is_fresh else self.known[key]
            if entry is None:
                continue
            documents = [document for document, _ in parsed.documents]
            if entry[1] is None and is_fresh and any(document.file in named for document in documents[:1]):
                entry = with_documents(entry, documents)
            elif entry[1] is None and key in self._documents:
                entry = with_documents(entry, self._documents[key])
            entries[key] = entry
        return entries


_Fields = tuple[Any, ...]
_Pack = tuple[dict[bytes, "Entry"], tuple[bytes, list[_Fields]], list[_Fields]]
_EMPTY: _Pack = ({}, (b"", []), [])


def _diagnostic(code: str, severity: Any, position: Any, message: str, help: str, *rest: Any) -> Diagnostic:
    subject, see, cause, path, explains, edit, _ = rest
    second, fix = Position(*see) if see is not None else None, Edit(*edit) if edit is not None else None
    return Diagnostic(code, severity, Position(*position), message, help, subject, second, cause, path, explains, fix)


def replace_file(path: Path, pieces: Iterable[bytes], mode: int = 0o600) -> None:
    """Write the pieces, one behind the other, into a file next to it, and put that in its place. Raises OSError."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".gangplan-", delete=False) as made:
        try:
            for piece in pieces:
                made.write(piece)
            made.close()
            os.chmod(made.name, mode)
            os.replace(made.name, path)
        except BaseException:  # a full disk, or a user who interrupts it
            os.unlink(made.name)
            raise
