"""The types of the JSON outputs hold what the commands print, and nothing else. Comparisons and statuses are held to
them where they are tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_type_hints

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli
from compiler.cli.schema import OUTPUT_NAMES
from compiler.diagnostics.diagnostic import Diagnostic, Position
from compiler.diagnostics.render import render_json
from compiler.explain.statements import FACT_KEYS, REPAIR_KEYS
from compiler.outputs import OUTPUTS, ReasonEntry
from tests.builders.outputs import assert_conforms

GOLDEN = Path(__file__).parents[2] / "golden"
FINDING = Diagnostic("GP101", "error", Position("jobs/a.yaml", 1, 1), "broken", "mend it")


def test_golden_plans_conform() -> None:
    plans = sorted(GOLDEN.glob("*/plan.json"))
    assert plans
    for plan in plans:
        assert_conforms("plan", json.loads(plan.read_text()))


def test_findings_conform_and_a_field_that_no_type_has_does_not() -> None:
    document = json.loads(render_json((FINDING,)))
    assert_conforms("check", document)
    document["diagnostics"][0]["more"] = 1
    with pytest.raises(AssertionError):
        assert_conforms("check", document)


def test_each_value_of_a_reason_or_a_repair_is_a_field() -> None:
    assert get_type_hints(ReasonEntry).keys() == {*FACT_KEYS, *REPAIR_KEYS, "code", "message", "also", "from"}


def test_schema_prints_that_of_each_output() -> None:
    assert set(OUTPUT_NAMES) == OUTPUTS.keys()
    for name in OUTPUT_NAMES:
        done = CliRunner().invoke(cli, ["schema", name])
        assert done.exit_code == 0, done.output
        schema = json.loads(done.stdout)
        assert schema["title"] == f"gangplan {name} -o json"
        assert schema["required"]
