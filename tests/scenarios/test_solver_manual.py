"""The example in docs/solver.md does what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

MANUAL = Path(__file__).parents[2] / "docs" / "solver.md"


def test_the_example_of_the_manual_prints_what_the_manual_shows() -> None:
    code, shown, *_ = re.findall(r"```(?:python|text)\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(MANUAL), "exec"), {})  # noqa: S102 - our own page
    assert printed.getvalue() == shown
