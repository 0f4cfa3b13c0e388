"""A child gets what fits beside its parent, and none of its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.planning.compile.process import (
    LEAST,
    MOST,
    CompileProcess,
    available_memory,
    child_environment,
    child_memory_limit,
)


@pytest.mark.parametrize(
    ("content", "expected"), [("4294967296\n", 4 << 30), ("max\n", None), ("9223372036854771712\n", None)]
)
def test_the_limit_of_the_container_is_found(content: str, expected: int | None, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(content)
    whole_machine = available_memory(())
    assert available_memory((tmp_path / "absent", limit)) == min(expected or whole_machine, whole_machine)


def test_a_child_stays_below_the_containers_limit() -> None:
    assert child_memory_limit(4 << 30) == 3 << 30
    assert child_memory_limit(1 << 20) == LEAST
    assert child_memory_limit(1 << 50) == MOST
    assert CompileProcess(Path("/nowhere"), lambda: None).memory_limit == child_memory_limit()


def test_no_credentials_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "here")
    environment = child_environment()
    assert environment["PYTHONPATH"] == "here"
    assert not {"KUBECONFIG", "AWS_SECRET_ACCESS_KEY"} & environment.keys()
