"""Whether a document is what `compiler.outputs` says of the JSON of a command."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from compiler.outputs import OUTPUTS

_ADAPTERS = {name: TypeAdapter[Any](output) for name, output in OUTPUTS.items()}


def assert_conforms(name: str, document: Any) -> None:
    """Without a conversion, and without a field that the type does not have: such a field would be missing."""
    printed = json.loads(json.dumps(document))
    assert _ADAPTERS[name].validate_python(printed, strict=True) == printed
