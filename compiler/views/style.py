"""How text looks: width, colours, characters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from compiler.diagnostics.diagnostic import linked_code

COLOURS: Mapping[str, str] = {
    "start": "32",
    "keep": "36",
    "wait": "33",
    "evict": "31",
    "never": "31",
    "done": "2",
    "empty": "2",
    "head": "1",
    "dim": "2",
}


@dataclass(frozen=True, slots=True)
class Style:
    """width in columns; colour: ANSI escapes; links: OSC 8; blocks: the terminal can show block characters."""

    width: int = 100
    colour: bool = False
    links: bool = False
    block_characters: bool = True

    def paint(self, text: str, colour_key: str) -> str:
        return f"\033[{COLOURS[colour_key]}m{text}\033[0m" if self.colour and text else text

    def code(self, code: str, colour_key: str) -> str:
        """Return the painted code, a link to its page where links are shown."""
        return self.paint(linked_code(code, self.links), colour_key)


PLAIN = Style()
"""For a file or a test: 100 columns, no colour."""


def hanging_text(head: str, text: str, width: int, indent: str) -> Iterator[str]:
    """Yield the text in lines of this width, the first behind `head`, the others behind `indent`."""
    first, *rest = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    yield f"{head}{first}"
    yield from (f"{indent}{line}" for line in rest)


def wrap_text(text: str, prefix: str, width: int) -> Iterable[str]:
    return textwrap.wrap(
        text, width, initial_indent=prefix, subsequent_indent=" " * min(len(prefix), 8), break_on_hyphens=False
    )
