"""Views for machines: one text per format, of any data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from compiler.emit.block import to_yaml


def to_json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"json": to_json, "yaml": to_yaml}
