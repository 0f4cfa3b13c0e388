"""The configuration file: every option, checked, below the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import reconciler.cli  # noqa: F401 - adds the commands
from compiler.cli.root import cli
from reconciler.cli.commands import reconcile
from reconciler.cli.config import NOT_IN_A_FILE, config_schema, read_config

GOOD = """\
# any option
repo: /srv/repo
cluster: demo
poll: 5
gitMaxSize: 64
gitIgnoreFault: [badTimezone]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(GOOD)
    return path


def test_every_option_has_its_place_in_the_schema() -> None:
    options = [each for each in reconcile.params if isinstance(each, click.Option) and each.name not in NOT_IN_A_FILE]
    properties = config_schema(reconcile)["properties"]
    assert len(properties) == len(options)
    assert all(entry["description"] for name, entry in properties.items() if name != "branch")
    assert properties["poll"]["minimum"] == 0.1
    assert "once" not in properties


def test_the_schema_is_printed() -> None:
    done = CliRunner().invoke(cli, ["config-schema"])
    assert json.loads(done.output) == config_schema(reconcile)


def test_the_command_line_wins_over_the_file(file: Path) -> None:
    seen: dict[str, Any] = {}
    callback = reconcile.callback
    reconcile.callback = lambda **options: seen.update(options)
    try:
        done = CliRunner().invoke(cli, ["reconcile", "--poll", "7", "--config", str(file)])
    finally:
        reconcile.callback = callback
    assert done.exit_code == 0, done.output
    assert (seen["repo"], seen["cluster"], seen["git_max_size"]) == ("/srv/repo", "demo", 64)
    assert seen["git_ignored_faults"] == ("badTimezone",)
    assert seen["poll"] == 7
    assert seen["branch"] == "main", "what neither says is the default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repo: x\nclustr: demo\n", ":2: clustr: there is no such option"),
        ("repo: x\n\npoll: soon\n", ":3: poll: 'soon' is not a valid float"),
        ("repo: x\npoll: 0\n", ":2: poll: 0.0 is not in the range x>=0.1"),
        ("repo: [x]\n", ":1: repo: ['x'] is not a text or number"),
        ("gitIgnoreFault: x\n", ":1: gitIgnoreFault: 'x' is not a list"),
        ("- repo\n", ":1: this is not a map of options"),
        ("repo: [\n", "line 2"),
        ("", ":1: this is not a map of options"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(click.ClickException) as refusal:
        read_config(file, reconcile)
    assert str(file) in refusal.value.message
    assert message in refusal.value.message
    assert "\n" not in refusal.value.message
