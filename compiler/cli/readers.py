"""Many files read at once, in as many processes as there are cores, with the same results as in one."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cli.entries import Entry, file_entry
from compiler.cli.forks import in_forks, process_count
from compiler.reading.documents import read_alone
from compiler.syntax.parse import ParsedFile

WARM_UP = 16
"""Files that are read first: what all processes need of kinds and schemas is then there before they part."""

File = tuple[bytes, str, bytes]
"""Key, name and content of a file."""


def read_at_once(files: Sequence[File]) -> tuple[dict[bytes, ParsedFile], dict[bytes, Entry]]:
    """By key: files that this process has read, and entries of files that other processes have read. Some may be
    missing."""
    if (processes := process_count(len(files))) == 1:
        return {}, {}
    read, rest = _read_all(files[:WARM_UP]), files[WARM_UP:]

    def entries_of_share(number: int) -> dict[bytes, Entry]:
        found = {key: file_entry(parsed) for key, parsed in _read_all(rest[number::processes]).items()}
        return {key: entry for key, entry in found.items() if entry is not None}

    own, answers = in_forks(processes, entries_of_share, lambda: _read_all(rest[::processes]))
    return read | own, {key: entry for entries in answers for key, entry in entries.items()}


def _read_all(files: Sequence[File]) -> dict[bytes, ParsedFile]:
    return {key: read_alone(file, content) for key, file, content in files}
