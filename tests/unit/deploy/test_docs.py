"""The pages of the site: each link leads somewhere, and each page is in the navigation."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler.checks.check import all_rules
from compiler.explain.catalogue import REASONS, REPAIRS, entries_by_code
from deploy.docs import ROOT, all_pages, configuration, screenshots, write_sources, written_pages
from deploy.pictures import NAMED, PICTURES, picture_pages, with_frames
from solver.models import constraints, evictions, pod_rule_rows

LINK = re.compile(r"\]\(([^)\s]+)\)")
LIMIT = 230_000
"""Most bytes of hand-written documents, the README included. Lower it where documents shrink."""


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    return all_pages()


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`|^ {4}.*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Anchors of headings, as Python-Markdown's toc makes them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles)
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def navigated(entries: Any) -> Iterator[str]:
    for entry in entries:
        found = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from navigated(found) if isinstance(found, list) else [found]


def test_each_link_leads_to_a_page_and_a_heading(pages: Mapping[str, str]) -> None:
    broken, targets = [], {*pages, *screenshots()}
    for name, text in pages.items():
        for link in LINK.findall(without_code(NAMED.sub("", text))):
            path, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            if not link.startswith("https://") and (
                target not in targets or (anchor and anchor not in anchors(pages[target]))
            ):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_each_page_of_the_readme_exists() -> None:
    links = LINK.findall(without_code((ROOT / "README.md").read_text()))
    assert [link for link in links if "://" not in link and not (ROOT / link.partition("#")[0]).exists()] == []


def test_the_navigation_holds_each_written_page_but_decisions(pages: Mapping[str, str]) -> None:
    shown = list(navigated(configuration()["nav"]))
    assert len(shown) == len(set(shown))
    assert set(shown) <= pages.keys()
    assert {name for name in written_pages() if "/decisions/" not in name} <= set(shown)


def test_each_code_has_a_page_with_its_fix_and_an_example(pages: Mapping[str, str]) -> None:
    rules = all_rules()
    for code in (*rules, *entries_by_code(REASONS), *entries_by_code(REPAIRS)):
        assert pages[f"reference/codes/{code}.md"].startswith(f"# {code} ")
        assert f"({code}.md)" in pages["reference/codes/index.md"]
    with_fix = [code for code in rules if "## Fix" in pages[f"reference/codes/{code}.md"]]
    with_example = [code for code in rules if "## Example" in pages[f"reference/codes/{code}.md"]]
    assert len(with_fix) > 200
    assert len(with_example) > 200


def test_each_option_of_each_command_is_on_its_page(pages: Mapping[str, str]) -> None:
    assert "--fail-on" in pages["reference/commands/diff.md"]
    assert "--node-timeout" in pages["reference/commands/reconcile.md"]
    assert "gangplan_pass_seconds" in pages["reference/metrics.md"]
    assert "PruneHeld" in pages["reference/conditions.md"]


def test_the_site_holds_the_pictures_that_a_test_makes(tmp_path: Path) -> None:
    write_sources(tmp_path, {})
    assert len(screenshots()) == 2
    for name in screenshots():
        assert (tmp_path / "docs" / name).read_bytes()[1:4] == b"PNG"


def test_each_family_of_rows_is_on_the_page_of_formulas(pages: Mapping[str, str]) -> None:
    families = {
        *constraints.CONSTRAINTS,
        *evictions.CONSTRAINTS,
        *pod_rule_rows.FAMILIES.values(),
        constraints.entitlements,
    }
    shown = pages["develop/rows.md"]
    missing = {family.__name__ for family in families if f"### {family.__name__}\n" not in shown}
    assert missing == {"pod_rules"}  # they only list others
    assert "gone_v[r] + retained_v[r] k[v,r] <= held_v[r]" in shown


def test_each_concept_has_a_picture_of_the_current_plan(pages: Mapping[str, str]) -> None:
    concepts = {name: text for name, text in pages.items() if name.startswith("concepts/")}
    assert all(len(NAMED.findall(text)) == 1 for text in concepts.values())
    made = picture_pages(concepts)
    assert len(made) == len(concepts) == len(PICTURES)
    assert made["pictures/eviction.html"] == PICTURES["eviction"].page()
    for name, text in concepts.items():
        (about, picture), framed = NAMED.findall(text)[0], with_frames(name, text)
        assert f'<iframe src="../pictures/{picture}.html" title="{about}"' in framed
        assert '"crop":{"sections":' in made[f"pictures/{picture}.html"]


def test_each_promise_names_a_test_that_exists(pages: Mapping[str, str]) -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?` \|$", pages["reliability/promises.md"], re.MULTILINE)
    assert len(named) >= 20
    for file, function in named:
        assert f"def {function}" in (ROOT / "tests" / file).read_text(), f"{file}::{function}"


def test_hand_written_documents_stay_short() -> None:
    size = sum(len(text.encode()) for text in (*written_pages().values(), (ROOT / "README.md").read_text()))
    assert size <= LIMIT
