"""One set of diagnostics in every format. A message holds what each format has to escape."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from compiler.diagnostics.diagnostic import Diagnostic, Position, shows_links
from compiler.diagnostics.render import FORMATS, render_github, render_json, render_junit, render_sarif, render_text
from compiler.diagnostics.render.words import severity_counts
from compiler.version import DOCS_URL
from compiler.views.style import Style

NASTY = Diagnostic(
    "GP101",
    "error",
    Position("jobs/a b,c:d.yaml", 3, 7),
    "100% <odd>\r\n::error::\x1b[31m & \u202e",
    "correct it",
    "Job ml/train",
)
PLAIN = Diagnostic(
    "GP302",
    "warning",
    Position("jobs/z.yaml", 1, 1),
    "there is no queue 'x'",
    "did you mean 'y'?",
    see=Position("q.yaml", 2, 3),
)
NOTE = Diagnostic("GP116", "info", Position("jobs/z.yaml", 2, 1), "unquoted 2026-01-31", "quote it")
ALL = (NASTY, PLAIN, NOTE)


def test_text_is_one_line_for_each_and_holds_no_control_character() -> None:
    text = render_text(ALL)
    assert text == (
        "jobs/a b,c:d.yaml:3:7: error GP101: 100% <odd>\\r\\n::error::\\x1b[31m & \\u202e. Fix: correct it\n"
        "jobs/z.yaml:1:1: warning GP302: there is no queue 'x'. Fix: did you mean 'y'? (see q.yaml:2:3)\n"
        "jobs/z.yaml:2:1: info GP116: unquoted 2026-01-31. Fix: quote it\n"
    )


def test_text_in_colour_only_when_asked() -> None:
    assert "\x1b" not in render_text(ALL)
    coloured = render_text((PLAIN,), colour=True)
    assert coloured == (
        "\x1b[1mjobs/z.yaml:1:1:\x1b[0m \x1b[33mwarning GP302:\x1b[0m "
        "there is no queue 'x'. Fix: did you mean 'y'? (see q.yaml:2:3)\n"
    )


def test_a_code_is_a_link_to_its_page_where_the_terminal_shows_links() -> None:
    url = f"{DOCS_URL}/reference/codes/GP302/"
    assert f"\x1b]8;;{url}\x1b\\GP302\x1b]8;;\x1b\\:" in render_text((PLAIN,), links=True)
    assert Style(links=True).code("GW104", "wait").startswith(f"\x1b]8;;{DOCS_URL}/reference/codes/GW104/\x1b\\GW104")


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM_PROGRAM": "vscode"}, True),
        ({"WT_SESSION": "1"}, True),
        ({"VTE_VERSION": "7402"}, True),
        ({"VTE_VERSION": "4205"}, False),
        ({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, False),
        ({"FORCE_HYPERLINK": "1"}, True),
    ],
)
def test_links_are_shown_on_terminals_that_are_known_to(variables: dict[str, str], shown: bool) -> None:
    assert shows_links(variables) is shown


def test_text_shows_the_line_with_a_caret_where_the_source_is_at_hand() -> None:
    source = {"jobs/z.yaml": b"\xef\xbb\xbfqueue: x\nday:\t\x1b2026-01-31\n"}
    assert render_text((NOTE,), sources=source).splitlines()[1:] == ["     2 | day: \\x1b2026-01-31", "       | ^"]
    assert render_text((NOTE,), sources={"jobs/z.yaml": b"one line"}).count("\n") == 1


def test_json_has_the_shape_that_others_script_against() -> None:
    rows = json.loads(render_json(ALL))["diagnostics"]
    assert rows[0] == {
        "code": "GP101",
        "severity": "error",
        "file": "jobs/a b,c:d.yaml",
        "line": 3,
        "column": 7,
        "message": NASTY.message,
        "help": "correct it",
        "object": "Job ml/train",
    }
    assert [row["code"] for row in rows] == ["GP101", "GP302", "GP116"]
    assert json.loads(render_json(())) == {"diagnostics": []}


def test_github_commands_are_escaped() -> None:
    lines = render_github(ALL).splitlines()
    assert lines == [
        "::error file=jobs/a b%2Cc%3Ad.yaml,line=3,col=7,title=GP101::100%25 "
        "<odd>\\r\\n::error::\\x1b[31m & \\u202e. Fix: correct it",
        "::warning file=jobs/z.yaml,line=1,col=1,title=GP302::there is no queue 'x'. Fix: did you mean 'y'?",
        "::notice file=jobs/z.yaml,line=2,col=1,title=GP116::unquoted 2026-01-31. Fix: quote it",
    ]


def test_sarif_names_rules_levels_and_places() -> None:
    log = json.loads(render_sarif(ALL))
    (run,) = log["runs"]
    assert (log["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "gangplan")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["GP101", "GP116", "GP302"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("GP101", "error"),
        ("GP302", "warning"),
        ("GP116", "note"),
    ]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "jobs/a%20b%2Cc%3Ad.yaml"},
        "region": {"startLine": 3, "startColumn": 7},
    }
    assert run["results"][1]["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 2


def test_junit_fails_for_errors_only_and_is_well_formed() -> None:
    root = ElementTree.fromstring(render_junit(ALL))  # noqa: S314  - our own text
    assert (root.get("tests"), root.get("failures")) == ("3", "1")
    assert [suite.get("name") for suite in root] == ["jobs/a b,c:d.yaml", "jobs/z.yaml"]
    (failure,) = root.iter("failure")
    assert failure.get("type") == "GP101"
    assert "100% <odd>" in (failure.text or "")
    assert len(list(root.iter("system-out"))) == 2
    empty = ElementTree.fromstring(render_junit(()))  # noqa: S314
    assert (empty.get("tests"), empty.get("failures")) == ("1", "0")


def test_every_format_ends_in_a_line_feed() -> None:
    assert all(render(ALL).endswith("\n") for render in FORMATS.values())


def test_counts_in_words() -> None:
    assert severity_counts(ALL) == "1 error, 1 warning, 1 info"
    assert severity_counts((PLAIN, PLAIN)) == "2 warnings"
    assert severity_counts(()) == ""


def test_data_of_a_finding_leaves_out_what_only_its_reading_uses() -> None:
    data = replace(PLAIN, path=("spec", "queue"), explains=("spec",)).as_data()
    assert data.pop("see") == {"file": "q.yaml", "line": 2, "column": 3}
    assert data.pop("position") == {"file": "jobs/z.yaml", "line": 1, "column": 1}
    assert sorted(data) == ["cause", "code", "help", "message", "object", "severity"]
