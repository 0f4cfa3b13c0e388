"""The page of each code on the site, and links to it in terminals."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.version import DOCS_URL

CODES_URL = f"{DOCS_URL}/reference/codes"
_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "rio", "Tabby"})
_TERMINALS = frozenset({"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm"})
_VARIABLES = ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM")
_FIRST_VTE = 5000
"""VTE 0.50, the first that shows links; GNOME Terminal and others name it in VTE_VERSION."""


def code_url(code: str) -> str:
    """Return the address of the page of a diagnostic, a reason or a repair."""
    return f"{CODES_URL}/{code}/"


def linked_code(code: str, links: bool) -> str:
    """Return the code, as a link to its page (OSC 8) where the terminal shows links."""
    return f"\x1b]8;;{code_url(code)}\x1b\\{code}\x1b]8;;\x1b\\" if links else code


def shows_links(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal with these variables shows links. FORCE_HYPERLINK decides where it is set."""
    if (forced := environment.get("FORCE_HYPERLINK")) is not None:
        return forced not in ("", "0")
    version = environment.get("VTE_VERSION", "0")
    return (
        environment.get("TERM_PROGRAM") in _PROGRAMS
        or environment.get("TERM") in _TERMINALS
        or any(name in environment for name in _VARIABLES)
        or (version.isdecimal() and int(version) >= _FIRST_VTE)
    )
