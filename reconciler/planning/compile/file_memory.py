"""The files of the last commit as they were read: a plan reads again only those that have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.diagnostics.guard import has_internal_error
from compiler.reading.documents import read_alone
from compiler.reading.files import configurations_inside
from compiler.repository import Repository
from compiler.syntax.parse import Adopt, ParsedFile, parse_file


@dataclass(slots=True)
class FileMemory:
    """What files say follows from their names and contents alone. known: (name, content) -> the file as read."""

    known: dict[tuple[str, bytes], ParsedFile] = field(default_factory=dict)

    def parse(self, file: str, content: bytes, adopt: Adopt) -> ParsedFile:
        """Parse a file as `parse_file` does, unless it is known."""
        return self.known.get((file, content)) or parse_file(file, content, adopt)

    def keep_only(self, files: Mapping[str, bytes]) -> None:
        """Read those that are not known, and forget all others."""
        former, self.known = self.known, {}
        for file in Repository(files).manifests():
            key = file, files[file]
            if (parsed := former.get(key)) is None:
                parsed = parse_file(*key, configurations_inside)
                read_alone(parsed)
            if not has_internal_error(parsed.all_diagnostics()):  # which is not sure to happen again
                self.known[key] = parsed
