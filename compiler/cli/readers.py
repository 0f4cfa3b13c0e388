"""Many files read at once, in as many processes as there are cores. What comes of it is the same as in one."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from compiler.cli.entries import Entry, complete_entry, complete_file, file_entry
from compiler.reading.documents import read_alone
from compiler.reading.files import configurations_inside
from compiler.syntax.parse import ParsedFile, parse_file

LEAST_FILES = 100
"""With fewer files another process costs more than it gains."""
WARM_UP = 16
"""Files that are read first: what all processes need of kinds and schemas is then there before they part."""
MOST_PROCESSES = 4

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
    if len(files) < LEAST_FILES or not sys.platform.startswith("linux"):
        return {}, {}
    read = {key: _read(file, content) for key, file, content in files[:WARM_UP]}
    rest, shares = files[WARM_UP:], min(_cores(), MOST_PROCESSES)
    children = [_start_child(rest[number::shares], entry_of) for number in range(1, shares)]
    read |= {key: _read(file, content) for key, file, content in rest[::shares]}
    entries: dict[bytes, Entry] = {}
    for process, pipe in children:
        entries |= _entries_of_child(process, pipe)
    return read, entries


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _read(file: str, content: bytes) -> ParsedFile:
    parsed = parse_file(file, content, configurations_inside)
    read_alone(parsed)
    return parsed


def _start_child(files: Sequence[File], entry_of: EntryOf) -> tuple[int, int]:
    """(process, pipe) of a child that reads the files."""
    pipe, end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(end)
        return process, pipe
    code = 1
    try:
        os.close(pipe)
        found = {key: entry for key, file, content in files if (entry := entry_of(_read(file, content))) is not None}
        with os.fdopen(end, "wb") as out:
            marshal.dump(found, out)
        code = 0
    finally:
        os._exit(code)


def _entries_of_child(process: int, pipe: int) -> Mapping[bytes, Entry]:
    """What a child has read; nothing where it failed, so that this process reads the files itself."""
    with os.fdopen(pipe, "rb") as out:
        content = out.read()
    _, status = os.waitpid(process, 0)
    if status != 0:
        return {}
    found: dict[bytes, Entry] = marshal.loads(content)  # noqa: S302  # of a child of this process
    return found
