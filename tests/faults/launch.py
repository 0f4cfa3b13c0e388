"""`python -m tests.faults.launch SETTINGS ARGUMENT...`: gangplan with a wall clock that can be set and with shorter
times.

SETTINGS is JSON: `clock`, a file with the seconds by which the wall clock is off (read at each look at it), and
`constants`, module -> name -> value. Constants that this version of gangplan does not have are passed over, so that
older versions can be put to the same tests.
"""

from __future__ import annotations

import datetime
import importlib
import json
import sys
import time
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


def set_constants(constants: dict[str, dict[str, Any]]) -> None:
    for name, values in constants.items():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for constant, value in values.items():
            if hasattr(module, constant):
                setattr(module, constant, tuple(value) if isinstance(value, list) else value)


def main() -> None:
    settings = json.loads(sys.argv.pop(1))
    shift_clock(Path(settings["clock"]))
    sys.path[0] = settings["root"]  # and no longer this folder
    set_constants(settings["constants"])
    from reconciler.cli import main as gangplan

    gangplan()


if __name__ == "__main__":
    main()
