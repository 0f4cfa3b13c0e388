"""The report page as a browser asks a reconciler for it: real requests, without a cluster."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from reconciler.planning.plan_pages import KEPT_PAGES, read_page, write_page
from reconciler.report.report_pages import ReportPages
from reconciler.threads.http import HttpServer
from tests.builders.compiles import ASKED

STATUS: dict[str, Any] = {"commit": "c0ffee", "conditions": [{"type": "Applied", "status": "True"}]}


class Desk:
    """A server of the pages, and what it serves."""

    def __init__(self, folder: Path) -> None:
        self.outcome = compile_repository(Repository.of_files(dict(ASKED.files)))
        self.digest, self.status = self.outcome.digest, dict(STATUS)
        self.folder = folder
        pages = ReportPages(folder, lambda: self.digest, lambda: self.status)
        answers = {"/report": pages.page, "/report/status.json": pages.status_json}
        self.server = HttpServer("http", "127.0.0.1:0", "GET", lambda request: answers[request.path](request))

    def get(self, path: str, **headers: str) -> tuple[int, bytes, Any]:
        url = f"http://127.0.0.1:{self.server.server_address[1]}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path / "pages")
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_the_page_of_the_plan_in_force_is_served_packed_and_plain(desk: Desk) -> None:
    write_page(desk.outcome, desk.folder)
    status, packed, headers = desk.get("/report", **{"Accept-Encoding": "gzip, br"})
    assert (status, headers["Content-Encoding"], headers["Content-Type"]) == (200, "gzip", "text/html; charset=utf-8")
    assert headers["Cache-Control"] == "no-store"
    status, plain, headers = desk.get("/report")
    assert (status, headers["Content-Encoding"], plain) == (200, None, gzip.decompress(packed))
    assert desk.digest.encode() in plain
    assert b"connect-src 'self'" in plain


def test_a_page_that_is_not_written_yet_or_a_plan_that_is_not_in_force_is_said(desk: Desk) -> None:
    assert desk.get("/report")[:2] == (503, b"the page of this plan is being written\n")
    desk.digest = ""
    assert desk.get("/report")[:2] == (503, b"no plan is in force yet\n")


def test_the_status_is_the_documents_with_a_sentence_for_each_condition(desk: Desk) -> None:
    status, body, headers = desk.get("/report/status.json")
    (condition,) = STATUS["conditions"]
    said = {**STATUS, "conditions": [{**condition, "sentence": "The cluster matches the plan."}]}
    assert (status, json.loads(body), headers["Content-Type"]) == (200, said, "application/json")


def test_the_next_plan_has_its_own_page(desk: Desk) -> None:
    write_page(desk.outcome, desk.folder)
    assert desk.get("/report")[0] == 200
    desk.digest = f"sha256:{'0' * 64}"
    assert desk.get("/report")[0] == 503


def test_old_pages_go_and_a_digest_names_no_other_file(desk: Desk) -> None:
    desk.folder.mkdir()
    for number in range(2 * KEPT_PAGES):
        (desk.folder / f"{number:064}.html.gz").write_bytes(b"")
    write_page(desk.outcome, desk.folder)
    assert len(list(desk.folder.iterdir())) == KEPT_PAGES
    assert read_page(desk.folder, desk.digest) is not None
    assert read_page(desk.folder, "sha256:../../etc/passwd") is None
