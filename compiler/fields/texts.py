"""How values and paths of documents are written in messages."""

from __future__ import annotations

from compiler.syntax.documents import FieldPath


def dotted_path(path: FieldPath) -> str:
    """("spec", "tasks", 0, "name") as spec.tasks[0].name."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "the document"


def short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def as_yaml_text(value: object) -> str:
    """Return a scalar as YAML reads it in quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
