"""What clusters begin with is made again when it would come out otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import quiet_user
from tests.controlplane.prepared import prepared_folder, without_descriptions


def test_descriptions_go_and_properties_of_that_name_stay() -> None:
    described = {"type": "string", "description": "what it is for"}
    schema = {"description": "of all", "properties": {"description": described, "x": {"items": [described]}}}
    bare = {"type": "string"}
    assert without_descriptions(schema) == {"properties": {"description": bare, "x": {"items": [bare]}}}


def test_the_folder_is_another_for_other_types_and_other_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crds").mkdir()
    names = set()
    for text in ("kind: A", "kind: B"):
        (tmp_path / "crds" / "a.yaml").write_text(text)
        names.add(prepared_folder(tmp_path))
    assert prepared_folder(tmp_path) in names, "the same for the same"
    monkeypatch.setattr(quiet_user, "role", dict)
    assert len({*names, prepared_folder(tmp_path)}) == 3
