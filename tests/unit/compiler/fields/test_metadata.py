"""What is said of labels and annotations."""

from __future__ import annotations

import pytest

from compiler.fields.metadata import metadata_diagnostics
from tests.builders.specs import document


@pytest.mark.parametrize(
    ("key", "help"),
    [
        ("gangplan.dev/submited-at", "did you mean 'gangplan.dev/submitted-at'?"),
        ("gangplan.dev/queue", "use one of "),  # not prune, which has only what all begin with in common
    ],
)
def test_an_unknown_annotation_is_told_its_likeness(key: str, help: str) -> None:
    data = {"annotations": {key: "x"}}
    (said,) = metadata_diagnostics(document("ConfigMap", "x", metadata=data), data, ("metadata",))
    assert said.help.startswith(help)
