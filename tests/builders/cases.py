"""The cases of tests/fixtures/diagnostics: small repositories, and what `check` reports of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.builders.beside import beside

FIXTURES = Path(__file__).parents[1] / "fixtures" / "diagnostics"

_MACROS: dict[str, str] = beside(__file__)


@dataclass(frozen=True)
class Case:
    code: str
    fails: bool
    title: str
    files: dict[str, bytes]
    expected: list[tuple[str, int, int | None, str]]
    own: tuple[str, ...]
    """The files that are the case's, not of the base."""

    @property
    def shown(self) -> dict[str, str]:
        """Its own files as an example for readers, with a comment for each finding."""
        texts = {name: self.files[name].decode() for name in self.own if name in self.files}
        return {name: re.sub(r"# expect: (.+)", _code_comment, text) for name, text in texts.items()}


def _code_comment(found: re.Match[str]) -> str:
    return f"# {' '.join(word.partition('@')[0] for word in found[1].split())}"


def _spelled_out(match: re.Match[str]) -> str:
    name, *arguments = match.group(1).split()
    text = (
        _MACROS[name]
        .replace("NAME", arguments[0] if arguments else "train")
        .replace("OTHER", arguments[1] if len(arguments) > 1 else "")
    )
    return text.replace(
        "ATOMIC", f", metax-tech.com/atomic-gpu-group-size: '{arguments[2]}'" if len(arguments) > 2 else ""
    )


def _files(text: str) -> dict[str, str]:
    parts = re.split(r"^## (\S+)\n", text, flags=re.MULTILINE)
    spelled = [re.sub(r"\{\{([a-z][^}]*)\}\}", _spelled_out, part).replace("\\t", "\t") for part in parts]
    return dict(zip(spelled[1::2], spelled[2::2], strict=True))


def load_cases(path: Path) -> list[Case]:
    base = _files((FIXTURES / "base.txt").read_text())
    found = re.split(r"^=== (GP\d+) (pass|fail): (.+)\n", path.read_text(), flags=re.MULTILINE)
    cases = []
    for code, outcome, title, body in zip(found[1::4], found[2::4], found[3::4], found[4::4], strict=True):
        own = _files(body)
        files = {name: text for name, text in {**base, **own}.items() if text}
        expected: list[tuple[str, int, int | None, str]] = [
            (name, int(line), None, what)
            for name, line, what in re.findall(r"^expect (\S+):(\d+) (GP\d+)$", body, flags=re.MULTILINE)
        ]
        for name, text in files.items():
            for number, line in enumerate(text.split("\n"), start=1):
                if told := re.search(r"# expect: (.+)$", line):
                    wanted = [part.partition("@") for part in told.group(1).split()]
                    expected += [(name, number, int(column) if column else None, what) for what, _, column in wanted]
        encoded = {name: text.encode() for name, text in files.items()}
        cases.append(Case(code, outcome == "fail", title, encoded, expected, tuple(own)))
    return cases


CASES = [case for path in sorted(FIXTURES.glob("*.txt")) if path.name != "base.txt" for case in load_cases(path)]
