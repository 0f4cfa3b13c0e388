"""Checks the words of code and documents against the style guide: `python -m deploy.prose` (part of scripts/check).

* No banned word in code and documents, and further ones in docstrings, comments and in what users read.
* Each diagnostic's documentation names its fix.
* A docstring begins with a capital letter, not with "What" or "Those", and ends its first paragraph with a full stop.
* No sentence of more than 25 words in diagnostics, `--help` and documents; no full stop in the help of an option.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import click

from compiler.checks.check import all_rules
from compiler.cli.root import cli
from compiler.volcano.arguments import OWNERS
from deploy.docs import ROOT, written_pages

CODE = ("compiler", "reconciler", "solver", "deploy", "bench")
DESCRIBED = ("compiler", "reconciler", "deploy", "bench")
"""Where docstrings are sentences; those of the solver may be formulas."""
BANNED = {
    r"mend(s|ing)?": "fix",
    r"anew": "again, recreated, restarted",
    r"goes by": "uses",
    r"stands again": "was restored",
    r"as it stands": "current",
    r"withheld": "not applied",
    r"whoever": "name the thing",
    r"null and void": "is ignored",
    r"without a word": "without a report",
    r"in vain": "without success",
    r"lets go": "releases",
    r"besides?": "next to, together with, in addition to",
}
"""Pattern -> what to write."""
_DIALECT = {
    r"told(?![,:])|tells": "reported, shown, sent; announced",
    r"stands?(?! for)|stood": "is",
    r"lets? in": "admitted",
    r"takes? up|takes? in turn": "resumes, alternates",
}
BANNED_IN_TEXTS = BANNED | {
    **_DIALECT,
    r"(?<!there )(is|are) no(?= [a-z])(?! (earlier|higher|larger|later|less|longer|lower|more))": "is not a, no such",
    r"the rights": "RBAC permissions",
    r"as it lies": "in the working tree",
}
"""Of what users read: documents, diagnostics and `--help`. A comment may have these words with another meaning."""
BANNED_IN_DOCSTRINGS = _DIALECT | {
    r"tell|telling|untold": "report, send; distinguish",
    r"says?|said": "reports, prints, declares; or name the field",
    r"goes (on|by)": "continues; uses",
}
"""Of docstrings and comments: programs report, send or have, and do not speak."""
MAX_WORDS = 25
_NAMES = frozenset({"gangplan", "torchrun", "kuberay", "spec", "deserved", "plugins", "replicas", *OWNERS})
"""Products, fields, and plugins and actions of Volcano, with which a sentence may begin in lower case."""
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def problems() -> Iterator[str]:
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path == Path(__file__):
                continue
            text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
            yield from _banned_words(name, text)
            yield from _banned_words(name, _documentation(text), BANNED_IN_DOCSTRINGS)
            if folder in DESCRIBED:
                yield from _docstring_problems(name, ast.parse(text))
    pages = all_documents()
    rules = all_rules()
    texts = {**pages, **{code: rule.text for code, rule in rules.items()}, "--help": "\n".join(_help_texts())}
    for name, text in texts.items():
        yield from _banned_words(name, text, BANNED_IN_TEXTS)
    yield from (f"{code}: its text has no 'Fix:'" for code, rule in rules.items() if "Fix" not in rule.text)
    for text in _option_helps():
        if re.search(r"\.(\s|$)", text):
            yield f"--help: the text of an option has no full stop: {text}"
    for kind, found in long_sentences(pages).items():
        yield from (f"{kind}: more than {MAX_WORDS} words; split: {sentence}" for sentence in found)


def long_sentences(pages: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the sentences with too many words, by the kind of text."""
    texts = {
        "diagnostics": [rule.text for rule in all_rules().values()],
        "--help": list(_help_texts()),
        "documents": [_prose(text) for text in pages.values()],
    }
    return {kind: [one for text in found for one in _long_sentences(text)] for kind, found in texts.items()}


def all_documents() -> dict[str, str]:
    pages = {f"docs/{name}": text for name, text in sorted(written_pages().items())}
    return {**pages, "README.md": (ROOT / "README.md").read_text(encoding="utf-8")}


def _help_texts() -> Iterator[str]:
    yield from (inspect.cleandoc(command.help or "") for command in _commands())
    yield from _option_helps()


def _option_helps() -> Iterator[str]:
    options = (each for command in _commands() for each in command.params if isinstance(each, click.Option))
    yield from (each.help for each in options if each.help)


def _commands() -> Iterator[click.Command]:
    import_module("reconciler.cli")  # adds its commands to those of the compiler
    for name in cli.list_commands(click.Context(cli)):
        if command := cli.get_command(click.Context(cli, resilient_parsing=True), name):
            yield command


def _banned_words(name: str, text: str, banned: Mapping[str, str] = BANNED) -> Iterator[str]:
    if not re.search(rf"\b({'|'.join(banned)})\b", text, re.IGNORECASE):
        return  # nearly always, found out many times as fast
    for number, line in enumerate(text.splitlines(), start=1):
        for word, instead in banned.items():
            for found in re.finditer(rf"\b({word})\b", line, re.IGNORECASE):
                yield f"{name}:{number}: {found[1]!r}; write: {instead}"


def _documentation(text: str) -> str:
    """Return the comments and docstrings of a module, each at its line, without all else."""
    lines, before = [""] * (text.count("\n") + 2), tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if is_docstring or token.type == tokenize.COMMENT:
            for number, line in enumerate(token.string.splitlines(), start=token.start[0]):
                lines[number] += line
        before = before if token.type in (tokenize.NL, tokenize.COMMENT) else token.type
    return "\n".join(lines[1:])


def _docstring_problems(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            first = text.partition("\n\n")[0].strip()
            line = getattr(node, "lineno", 1)
            if not first.endswith((".", "!", "?", ":", ")")):
                yield f"{name}:{line}: the first paragraph of a docstring ends without a full stop"
            if re.match(r"(What|Those)\b", first):
                yield f"{name}:{line}: a docstring begins with {first.split()[0]!r}; name the thing"
            if _begins_small(first, node):
                yield f"{name}:{line}: a docstring begins with a small letter"


def _begins_small(text: str, node: Documented) -> bool:
    """Return whether a plain word in lower case is first: not a name of a parameter, a field, a product or a term."""
    word = re.match(r"[a-z]+(?= )", text)
    if word is None or word[0] in _NAMES or " -> " in text.partition(".")[0]:
        return False
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        return word[0] not in {each.arg for each in arguments}
    targets = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
    return word[0] not in {each.id for each in targets if isinstance(each, ast.Name)}


def _prose(text: str) -> str:
    """Return a page without code blocks, tables, headings and links. Each item of a list is a paragraph, and code in a
    sentence one word."""
    text = re.sub(r"`[^`\n]+`", "code", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = (line for line in text.splitlines() if not re.match(r" *\||#|    ", line))
    return re.sub(r"\]\([^)]*\)", "]", "\n".join(re.sub(r"^\s*([*>]|\d+\.) ", "\n\n", line) for line in lines))


def _long_sentences(text: str) -> list[str]:
    sentences = (found for part in text.split("\n\n") for found in re.split(r"(?<=[.!?:;])\s+", part))
    return [" ".join(sentence.split()) for sentence in sentences if len(sentence.split()) > MAX_WORDS]


def main() -> int:
    found = list(problems())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
