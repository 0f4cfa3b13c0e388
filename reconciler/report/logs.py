"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping

from reconciler.report.stray_lines import line_head


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, what `fields` gives for every line, the message, and what was logged with it
    (`object` and `revision` mean the same everywhere)."""

    _STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def __init__(self, fields: Callable[[], Mapping[str, object]] = dict) -> None:
        super().__init__()
        self.fields = fields

    def add_fields(self, fields: Callable[[], Mapping[str, object]]) -> None:
        """Set what is given for every line from now on."""
        self.fields = fields

    def format(self, record: logging.LogRecord) -> str:
        line = line_head(record.created, record.levelname.lower())
        line |= {name: str(value) for name, value in self.fields().items() if value}
        line |= {
            "message": record.getMessage().rstrip(),
            **{k: v for k, v in vars(record).items() if k not in self._STANDARD_FIELDS},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
