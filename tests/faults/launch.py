"""`python -m tests.faults.launch SETTINGS ARGUMENT...`: gangplan with a wall clock that can be set and with shorter
times.

SETTINGS is JSON: `clock`, a file with the seconds by which the wall clock is off (read at each look at it), and
`numbers`: group of `reconciler.timings`, or module, -> name -> value. Those that this version of gangplan does not have
are passed over, so that older versions can be put to the same tests.
"""

from __future__ import annotations

import datetime
import importlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

_real_time = time.time
_real_datetime = datetime.datetime


def shift_clock(file: Path) -> None:
    """From now on `time.time` and `datetime.now` are off by what the file says."""

    def offset() -> float:
        try:
            return float(file.read_text() or 0)
        except (OSError, ValueError):
            return 0.0

    class ShiftedDatetime(_real_datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _real_datetime.now(tz) + datetime.timedelta(seconds=offset())

    time.time = lambda: _real_time() + offset()
    datetime.datetime = ShiftedDatetime  # type: ignore[misc]


def take_timings(numbers: dict[str, dict[str, Any]]) -> None:
    """Let reconcilers be built with these numbers."""
    try:
        timings = importlib.import_module("reconciler.timings").Timings()
    except ModuleNotFoundError:
        return
    groups = {
        name: replace(getattr(timings, name), **tupled(values))
        for name, values in numbers.items()
        if hasattr(timings, name)
    }
    commands: Any = importlib.import_module("reconciler.cli.commands")
    commands.TIMINGS = replace(timings, **groups)


def tupled(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def main() -> None:
    settings = json.loads(sys.argv.pop(1))
    shift_clock(Path(settings["clock"]))
    sys.path[0] = settings["root"]  # and no longer this folder
    take_timings(settings["numbers"])
    from reconciler.cli import main as gangplan

    gangplan()


if __name__ == "__main__":
    main()
