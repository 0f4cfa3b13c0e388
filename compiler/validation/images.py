"""References of container images, as a kubelet reads them (github.com/distribution/reference, normalize.go)."""

from __future__ import annotations

import re
from typing import Any

from compiler.diagnostics.diagnostic import declare_rule
from compiler.fields.texts import dotted_path, short_repr
from compiler.openapi.shape import Flaw
from compiler.syntax.documents import FieldPath
from compiler.validation.judge import Judge

UNREADABLE_IMAGE = declare_rule("GP246", "warning")

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})"
_TAIL = rf"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@{_DIGEST})?"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*{_TAIL}", re.ASCII)
_REGISTRY = re.compile(_HOST, re.ASCII)
_PARAMETER = re.compile(r"\{\{|\$\(|\A\Z")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}", re.ASCII)


def image(judge: Judge, text: Any, path: FieldPath) -> None:
    """Judge an image. The API server refuses one with blanks around it; an operator fills in a parameter."""
    if isinstance(text, str) and text.strip() == text and not _PARAMETER.search(text) and not is_image(text):
        help = "write the image in lower-case letters" if is_image(text.lower()) else "write registry/repository:tag"
        message = f"{dotted_path(path)}: no kubelet can pull {short_repr(text)}"
        judge.take([Flaw(path, UNREADABLE_IMAGE, message, help)])


def is_image(text: str) -> bool:
    """Return whether a kubelet reads the text as an image."""
    registry, slash, repository = text.partition("/")
    if slash and (registry == "localhost" or re.search("[.:A-Z]", registry)):
        return bool(_REGISTRY.fullmatch(registry) and _REPOSITORY.fullmatch(repository))
    return bool(_REPOSITORY.fullmatch(text)) and not _IDENTIFIER.fullmatch(text)
