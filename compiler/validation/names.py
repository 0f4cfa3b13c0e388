"""The forms of names in Kubernetes (k8s.io/apimachinery/pkg/util/validation)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of names. objection: why a name has it not, None for one that has it."""

    objection: Callable[[str], str | None]


def _form(pattern: str, longest: int, help: str) -> Form:
    compiled = re.compile(rf"(?:{pattern})\Z", re.ASCII)

    def objection(name: str) -> str | None:
        if len(name.encode("utf-8", "replace")) > longest:
            return f"use at most {longest} characters"
        return None if compiled.match(name) else help

    return Form(objection)


_LOWER = "use lower-case letters, digits and -, beginning and ending with a letter or digit"
DNS_LABEL = _form(_LABEL, 63, _LOWER)
SERVICE_NAME = _form(
    r"[a-z]([-a-z0-9]*[a-z0-9])?", 63, "use lower-case letters, digits and -, beginning with a letter, at most 63"
)
DNS_SUBDOMAIN = _form(
    _SUBDOMAIN, 253, "use lower-case letters, digits, - and ., beginning and ending with a letter or digit"
)
LABEL_VALUE = _form(
    rf"({_QUALIFIED})?", 63, "use letters, digits, -, _ and ., beginning and ending with a letter or digit"
)
ENV_NAME = _form(r"[-._a-zA-Z][-._a-zA-Z0-9]*", 1 << 20, "use letters, digits, _, - and ., not beginning with a digit")
PRINTABLE_ENV_NAME = _form(r"[ -<>-~]+", 1 << 20, "use printable ASCII characters without =")
HTTP_HEADER = _form(r"[-A-Za-z0-9]+", 1 << 20, "use letters, digits and -")
SEARCH_DOMAIN = _form(
    _SUBDOMAIN.replace("[-a-z0-9]", "[-_a-z0-9]").replace("[a-z0-9]", "[_a-z0-9]") + r"\.?|\.", 254, _LOWER
)
CONFIG_KEY = _form(r"(?!\.\.?\Z)[-._a-zA-Z0-9]+", 253, "use letters, digits, -, _ and .")
SYSCTL = _form(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?", 253, "see `sysctl -a`")


def _qualified_objection(name: str) -> str | None:
    prefix, slash, last = name.rpartition("/")
    if slash and (not prefix or (help := DNS_SUBDOMAIN.objection(prefix)) is not None):
        return f"before the / must be a DNS name: {help if prefix else _LOWER}"
    if not last:
        return "the part behind the / is empty"
    return LABEL_VALUE.objection(last)


QUALIFIED = Form(_qualified_objection)
ANNOTATION_KEY = Form(lambda name: _qualified_objection(name.lower()))


def _port_name_objection(name: str) -> str | None:
    if len(name) > 15:
        return "use at most 15 characters"
    if not re.fullmatch(r"[-a-z0-9]+", name) or not re.search("[a-z]", name):
        return "use lower-case letters, digits and -, a letter at least"
    return "use - only between others, one at a time" if "--" in name or name.strip("-") != name else None


PORT_NAME = Form(_port_name_objection)


def _segment_objection(name: str) -> str | None:
    return "use a name without / and %" if name in (".", "..") or "/" in name or "%" in name else None


PATH_SEGMENT = Form(_segment_objection)
