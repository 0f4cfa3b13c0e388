"""Many files read at once, in as many processes as there are cores. What comes of it is the same as in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from compiler.cli.entries import Entry, complete_entry, complete_file, file_entry
from compiler.cli.forks import in_forks, process_count
from compiler.reading.documents import read_alone
from compiler.reading.files import configurations_inside
from compiler.syntax.parse import ParsedFile, parse_file

WARM_UP = 16
"""Files that are read first: what all processes need of kinds and schemas is then there before they part."""

File = tuple[bytes, str, bytes]
"""Key, name and content of a file."""


EntryOf = Callable[[ParsedFile], Entry | None]


def read_in_parallel(files: Mapping[str, bytes]) -> dict[str, ParsedFile]:
    """File -> what reading it came to, with its documents in full. Some may be missing."""
    names = {file.encode("utf-8", "surrogateescape"): file for file in files}
    read, entries = read_at_once([(key, file, files[file]) for key, file in names.items()], complete_entry)
    read |= {key: parsed for key, entry in entries.items() if (parsed := complete_file(entry)) is not None}
    return {names[key]: parsed for key, parsed in read.items()}


def read_at_once(
    files: Sequence[File], entry_of: EntryOf | None = None
) -> tuple[dict[bytes, ParsedFile], dict[bytes, Entry]]:
    """By key: files that this process has read, and entries of files that other processes have read (`file_entry` by
    default). Some may be missing."""
    entry_of = entry_of or file_entry
    if (processes := process_count(len(files))) == 1:
        return {}, {}
    read, rest = _read_all(files[:WARM_UP]), files[WARM_UP:]

    def entries_of_share(number: int) -> dict[bytes, Entry]:
        found = {key: entry_of(parsed) for key, parsed in _read_all(rest[number::processes]).items()}
        return {key: entry for key, entry in found.items() if entry is not None}

    own, answers = in_forks(processes, entries_of_share, lambda: _read_all(rest[::processes]))
    return read | own, {key: entry for entries in answers for key, entry in entries.items()}


def _read_all(files: Sequence[File]) -> dict[bytes, ParsedFile]:
    return {key: _read(file, content) for key, file, content in files}


def _read(file: str, content: bytes) -> ParsedFile:
    parsed = parse_file(file, content, configurations_inside)
    read_alone(parsed)
    return parsed
