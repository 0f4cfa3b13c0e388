"""The cases of a test module that are data: the YAML file of the same name next to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def beside(module: str) -> Any:
    """module: its `__file__`."""
    return yaml.load(Path(module).with_suffix(".yaml").read_text(), yaml.CSafeLoader)
