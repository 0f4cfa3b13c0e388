"""The report in a real browser: no error, no request, everything findable, the keyboard, and hostile names as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import load_state
from compiler.pipeline import CommandLimit, compile_repository
from compiler.repository.tree import Repository
from compiler.views.report.page import page_of, report_document
from compiler.views.simulation import SimulationView, simulation_page
from deploy.pictures import PICTURES
from reconciler.planning.plan_pages import write_page
from reconciler.report.report_pages import ReportPages
from reconciler.threads.http import HttpServer, Reply
from tests.browser.chromium import Page, running_browser
from tests.browser.worlds import HOSTILE, hostile_document, large_document
from tests.builders.compiles import ASKED, OTHER, request
from tests.builders.simulations import job, machines, replay, workload

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests/golden"
WIDTHS = (400, 1000, 2000)
SCREEN_HEIGHT = 900
MOST_BYTES = 3_000_000
POINTS = ("head", "waiting", "queues", "room")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with running_browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    without_clock = CommandLimit(seconds=3600.0)  # the plan is the same on a loaded machine
    return report_document(compile_repository(Repository.from_directory(ROOT), limit=without_clock))


@pytest.fixture(scope="module")
def example_file(example: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(example, tmp_path_factory.mktemp("example"))


@pytest.fixture
def quiet(page: Page) -> Iterator[Page]:
    """The page, which afterwards has reported nothing and asked for nothing but its own file."""
    page.problems.clear()
    page.requests.clear()
    yield page
    page.settle()
    assert page.problems == []
    assert [address for address in page.requests if not address.startswith("file:")] == []


def written(document: dict[str, Any], folder: Path) -> Path:
    file = folder / "plan.html"
    file.write_text(page_of(document), encoding="utf-8")
    return file


def found_by_search(page: Page, names: list[str]) -> list[str]:
    """The first row that the search box shows for each name."""
    search = """((names) => {
        const input = document.getElementById("search"), list = document.getElementById("found");
        return names.map((name) => {
            input.value = name;
            input.dispatchEvent(new Event("input"));
            return list.children.length ? list.children[0].querySelector("bdi").textContent : "";
        });
    })"""
    found: list[str] = page.evaluate(f"{search}({json.dumps(names)})")
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_its_width_without_an_error_and_without_the_network(
    quiet: Page, example_file: Path, width: int, dark: bool
) -> None:
    quiet.open(example_file, width, dark=dark)
    assert quiet.evaluate("document.documentElement.scrollWidth") <= width
    assert quiet.evaluate(
        "[...document.querySelectorAll('.scroll')].every((box) => box.scrollWidth <= box.clientWidth)"
    )
    assert quiet.evaluate("document.querySelectorAll('.picture .cells path').length") > 5
    assert "can never start" in quiet.evaluate("document.getElementById('never').textContent")


CONTRAST = """(() => {
    const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const linear = (part) => (part <= 10.31475 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const weights = [0.2126, 0.7152, 0.0722];
    const light = (colour) => weights.reduce((sum, weight, at) => sum + weight * linear(parts(colour)[at]), 0);
    const behind = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const colour = getComputedStyle(each).backgroundColor;
            if (parts(colour)[3] !== 0) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const weak = [];
    for (const element of document.querySelectorAll("body *:not(script):not(option)")) {
        const own = [...element.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
        if (!own || !element.getClientRects().length || element.matches(".letter, .inside, :disabled, .skip")) continue;
        const style = getComputedStyle(element), isDrawn = element.namespaceURI.endsWith("svg");
        const [a, b] = [light(isDrawn ? style.fill : style.color), light(behind(element))].sort((x, y) => y - x);
        const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.6 && style.fontWeight >= 700);
        if ((a + 0.05) / (b + 0.05) < (isLarge ? 3 : 4.5)) weak.push(element.textContent.slice(0, 40));
    }
    return weak;
})()"""
"""Texts with less contrast than WCAG 2.2 asks for at level AA."""


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_enough_contrast(quiet: Page, example_file: Path, dark: bool) -> None:
    quiet.open(example_file, dark=dark)
    quiet.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert quiet.evaluate(CONTRAST) == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_documentation_is_legible_and_fits_its_frame(
    quiet: Page, tmp_path: Path, name: str, dark: bool
) -> None:
    picture, file = PICTURES[name], tmp_path / "picture.html"
    file.write_text(picture.page(), encoding="utf-8")
    quiet.open(file, 700, dark=dark)
    drawn = "[...document.querySelectorAll('section, header, footer')].filter((each) => each.offsetHeight)"
    assert quiet.evaluate(f"{drawn}.map((each) => each.id)") == list(picture.sections)
    assert quiet.evaluate("document.body.scrollHeight") <= picture.height
    assert quiet.evaluate(CONTRAST) == []


def test_search_finds_every_job_and_node_of_the_example(
    quiet: Page, example: dict[str, Any], example_file: Path
) -> None:
    quiet.open(example_file)
    names = [f"{job['namespace']}/{job['name']}" for job in example["gangs"]]
    names += [*example["nodes"]["name"], *example["domains"]["name"]]
    assert found_by_search(quiet, names) == names


def test_the_page_answers_the_questions_of_somebody_who_knows_nothing(quiet: Page, example_file: Path) -> None:
    """Which jobs wait and why, which queue borrows, where a gang of 64 GPUs would fit, and what starts next."""
    quiet.open(example_file)
    texts = {part: quiet.evaluate(f"document.getElementById('{part}').innerText") for part in POINTS}
    assert "foundation/llm-200b-pretrain" in texts["waiting"]
    assert "queue pretrain may hold 1024 nvidia.com/gpu and has 256 left" in texts["waiting"]
    assert "borrowed: posttrain 48" in texts["queues"]
    assert quiet.evaluate("document.querySelector('.question input').value") == "64"
    assert "h100-sn-07" in quiet.evaluate("document.querySelector('.answer').textContent")
    for answer in (
        "Starts next\nfoundation/llm-200b-pretrain: expected to start in about 21 days",
        "ads/retrain-archive: queue ads may hold 256 nvidia.com/gpu and has 180 left; the job asks for 192",
        "Can never start\nvision/giant-context: needs 12 pods in one domain of tier 1",
        "Borrows\nposttrain 48 NVIDIA GPUs more than deserved",
        "Largest gang that fits\n64 NVIDIA GPUs in one sn (h100-sn-07 and 4 more), 272 NVIDIA GPUs in one spine",
    ):
        assert answer in texts["head"]
    bottom = "document.querySelector('.glance').getBoundingClientRect().bottom"
    assert quiet.evaluate(bottom) < SCREEN_HEIGHT  # what is seen before anybody scrolls


def test_a_walk_by_keyboard_alone(quiet: Page, example_file: Path) -> None:
    quiet.open(example_file)
    for _ in range(40):
        quiet.press("Tab")
        if quiet.evaluate("document.activeElement.classList.contains('picture')"):
            break
    said = "document.querySelector('[role=status][aria-live]').textContent"
    assert quiet.evaluate(said).startswith("h100-000. h100-spine-0 > h100-sn-00. 0 of 8 NVIDIA GPUs free.")
    quiet.press("ArrowDown")
    assert quiet.evaluate(said).startswith("h100-001.")
    quiet.press("PageDown")
    assert quiet.evaluate(said).startswith("h100-008.")
    quiet.press("Enter")
    first = quiet.evaluate("document.querySelector('.card h3').textContent")
    quiet.press("Enter")
    second = quiet.evaluate("document.querySelector('.card h3').textContent")
    assert "ads/ctr-hourly" in first
    assert first != second != ""
    quiet.press("Escape")
    assert quiet.evaluate("document.querySelector('.card').textContent") == ""
    quiet.press("z")
    assert quiet.evaluate("document.getElementById('zoom').selectedOptions[0].textContent") == "h100-spine-0 (spine)"
    quiet.press("z")
    assert quiet.evaluate("document.getElementById('zoom').selectedOptions[0].textContent") == "h100-sn-01 (sn)"
    quiet.press("Escape")
    quiet.press("Escape")
    assert quiet.evaluate("document.getElementById('zoom').value") == ""


def test_a_searched_job_is_shown_by_enter_alone(quiet: Page, example_file: Path) -> None:
    quiet.open(example_file)
    quiet.evaluate("document.getElementById('search').focus()")
    quiet.write("sft")
    quiet.press("Enter")
    assert "foundation/sft-8b" in quiet.evaluate("document.querySelector('.card h3').textContent")
    assert quiet.evaluate("document.querySelector('.marks path.chosen').getAttribute('d').split('M').length - 1") == 64


def test_a_pointer_finds_node_and_job_by_arithmetic(quiet: Page, example_file: Path) -> None:
    quiet.open(example_file)
    quiet.evaluate("document.querySelector('.picture').scrollIntoView()")
    box = quiet.evaluate("(({x, y}) => [x, y])(document.querySelector('.picture').getBoundingClientRect())")
    quiet.click(box[0] + 4, box[1] + 38)
    assert quiet.evaluate("document.querySelector('.tip strong').textContent") == "h100-000"
    assert "foundation/sft-8b" in quiet.evaluate("document.querySelector('.card h3').textContent")


def test_every_fold_opens_and_a_print_shows_what_waits(quiet: Page, example_file: Path) -> None:
    quiet.open(example_file)
    quiet.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert quiet.evaluate("[...document.querySelectorAll('details')].every((box) => box.children.length > 1)")
    assert "capability 268" in quiet.evaluate("document.getElementById('waiting').innerText")
    assert quiet.call("Page.printToPDF")["data"]


def test_before_and_after_are_side_by_side_and_what_leaves_is_marked(quiet: Page, tmp_path: Path) -> None:
    document = large_document(64, 12)
    victim = next(job for job in document["gangs"] if job["decision"] == "keep")
    victim |= {"decision": "evict", "before": victim["pods"], "evicted": victim["pods"], "evictedFor": [], "pods": {}}
    gone = {**victim, "name": "former", "decision": "gone"}
    change = {"change": "removed", "verb": "is removed", "verbs": "are removed", "kind": "Job", "name": "team/former"}
    changes = [{**change, "queue": "queue-1", "why": "it is not in the new revision"}]
    document["base"] = {"name": "HEAD~1", "changes": changes, "gone": [gone]}
    quiet.open(written(document, tmp_path), 1000)
    assert quiet.evaluate("document.querySelectorAll('.picture').length") == 2
    assert "team/former" in quiet.evaluate("document.getElementById('changes').innerText")
    leaving = "document.querySelectorAll('.picture')[0].querySelector('path.leaves').getAttribute('d')"
    devices = 8 * len(victim["before"]["worker"])
    assert quiet.evaluate(f"{leaving}.split('M').length - 1") == devices
    quiet.evaluate("document.querySelector('.both input').click()")
    assert quiet.evaluate("document.querySelectorAll('.picture')[0].clientWidth") == 0
    assert found_by_search(quiet, ["team/former"]) == ["team/former"]


@pytest.mark.parametrize("mode", ["job", "queue", "state", "free"])
def test_every_mode_draws_and_explains_its_colours(quiet: Page, example_file: Path, mode: str) -> None:
    quiet.open(example_file)
    quiet.evaluate(f"document.querySelector('input[value={mode}]').click()")
    shown = set(
        quiet.evaluate("[...document.querySelectorAll('.cells path')].map((path) => path.getAttribute('class'))")
    )
    swatches = "[...document.querySelectorAll('#cluster .legend .swatch')]"
    explained = quiet.evaluate(f"{swatches}.map((one) => one.className.replace('swatch ', ''))")
    assert {key for key in shown if not key.startswith("over")} <= set(explained)


def test_room_that_only_one_queue_may_use_is_marked(quiet: Page, tmp_path: Path) -> None:
    quiet.open(written(json.loads((CASES / "reservation/report.json").read_text()), tmp_path))
    head = quiet.evaluate("document.getElementById('head').innerText")
    assert "16 GPUs in one supernode (gpu-supernode-2, only for queue science)" in head


def test_a_domain_lent_to_another_queue_is_named(quiet: Page, tmp_path: Path) -> None:
    state = load_state((CASES / "lending/state.yaml").read_bytes())
    lending = report_document(compile_repository(Repository.from_directory(CASES / "lending/repo"), state=state))
    quiet.open(written(lending, tmp_path))
    head = quiet.evaluate("document.getElementById('head').innerText")
    assert "Borrows\nlent: gpu-sn-1 of queue training to research" in head


def test_a_large_cluster_is_small_enough_and_everything_is_found(quiet: Page, tmp_path: Path) -> None:
    document = large_document()
    file = written(document, tmp_path)
    assert file.stat().st_size < MOST_BYTES
    quiet.open(file)
    names = [f"team/{job['name']}" for job in document["gangs"]] + document["nodes"]["name"][::97]
    assert found_by_search(quiet, names) == names
    assert quiet.evaluate("document.documentElement.scrollWidth") <= 1000


def test_hostile_names_are_text(quiet: Page, example: dict[str, Any], tmp_path: Path) -> None:
    for number, document in enumerate((example, large_document(200, 40))):
        folder = tmp_path / str(number)
        folder.mkdir()
        quiet.open(written(hostile_document(document), folder), 400)
        quiet.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert quiet.evaluate("document.title") != "hit"
        assert quiet.evaluate("document.querySelectorAll('img, iframe, script').length") == 2
        text = quiet.evaluate("document.body.innerText")
        assert HOSTILE[0] in text
        assert HOSTILE[5] in text
        assert "\\u202egnirts" in text
        assert not set("\u202e\u2066\u200f\u2028\x00") & set(text)
        assert quiet.evaluate("document.documentElement.scrollWidth") <= 400
        ends = "[...document.querySelectorAll('.picture text')].map((text) => text.getBBox().x + text.getBBox().width)"
        assert max(quiet.evaluate(ends)) <= 400, "a text is cut where the picture ends"


NO_NODES = {
    "cluster-specs/test/cluster.yaml": b"apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: test}\n"
}


def test_a_cluster_without_nodes_has_a_page(quiet: Page, tmp_path: Path) -> None:
    """Seen once: a key in its empty picture was an error."""
    quiet.open(written(report_document(compile_repository(Repository.of_files(NO_NODES))), tmp_path))
    quiet.evaluate("document.querySelector('.picture').focus()")
    for key in ("ArrowDown", "Enter", "End", "z", "Escape"):
        quiet.press(key)
    assert "There are no nodes." in quiet.evaluate("document.getElementById('room').textContent")


@pytest.fixture(scope="module")
def replay_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three policies, with names of queues and of a policy that would rather be markup."""
    queues = machines(4, weights=(1, 1, 1))
    named = (replace(queue, name=name) for queue, name in zip(queues.queues, HOSTILE, strict=False))
    jobs = [job(f"j{n}", size=1 + n % 4, runs=5000 + 977 * (n % 5), at=1800 * n, queue=n % 3) for n in range(40)]
    world = workload(replace(queues, queues=tuple(named)), *jobs)
    policies = {"easy": "easy", HOSTILE[0]: "fifo", HOSTILE[3]: "best-fit"}
    view = SimulationView(world, {name: replay(policy, world) for name, policy in policies.items()}, [HOSTILE[1]])
    file = tmp_path_factory.mktemp("replay") / "replay.html"
    file.write_text(simulation_page(view, HOSTILE[4]), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_a_replay_is_legible_and_names_on_it_are_text(
    quiet: Page, replay_file: Path, width: int, dark: bool
) -> None:
    quiet.open(replay_file, width, dark=dark)
    assert quiet.evaluate("document.documentElement.scrollWidth") <= width
    assert quiet.evaluate(CONTRAST) == []
    assert quiet.evaluate("document.querySelectorAll('.chart').length") == 4 + 3
    assert quiet.evaluate("document.querySelectorAll('#curves path.curve').length") == 4 * 3
    assert quiet.evaluate("document.title") != "hit"
    assert quiet.evaluate("document.querySelectorAll('img, iframe, script').length") == 2
    assert "\\u202egnirts" in quiet.evaluate("document.body.innerText")


def test_a_chart_is_read_by_pointer_and_by_keyboard(quiet: Page, replay_file: Path) -> None:
    """At first one job runs on one of four machines."""
    quiet.open(replay_file)
    quiet.evaluate("document.querySelector('#curves .frame').focus()")
    said = "document.querySelector('#curves article .hint').textContent"
    quiet.press("ArrowRight")
    first = quiet.evaluate(said)
    assert first.startswith("At 5.8 minutes: ")
    assert "easy 25.0" in first
    quiet.press("ArrowRight")
    assert quiet.evaluate(said) != first
    assert quiet.evaluate("document.querySelectorAll('#curves line.cursor').length") == 1


def test_a_served_page_shows_the_status_and_takes_the_next_plan(page: Page, tmp_path: Path) -> None:
    """Without a reload: the conditions, what is held back, and the plan that comes into force."""
    held = [{"object": "Job team/<b>evil</b>", "reason": "fields of others"}]
    condition = {"type": "Applied", "status": "False", "reason": "Held", "message": "one object is held"}
    status: dict[str, Any] = {
        "commit": "c0ffee",
        "head": "c0ffee",
        "conditions": [{**condition, "lastTransitionTime": "2026-01-31T12:00:00Z"}],
        "held": held,
        "heldTotal": 1,
        "finished": {"Job team/over": "Completed"},
        "finishedTotal": 1,
        "history": {"Job default/train": [{"since": "2026-01-31T12:00:00Z", "decision": "wait", "codes": ["GW101"]}]},
    }
    first, second = (
        compile_repository(Repository.of_files(dict(asked.files))) for asked in (ASKED, request(other=OTHER))
    )
    for outcome in (first, second):
        write_page(outcome, tmp_path)
    status["digest"] = first.digest
    reported: list[dict[str, Any]] = []
    pages = ReportPages(tmp_path, lambda: status["digest"], lambda: reported[0] if reported else None)

    def answer(asked: BaseHTTPRequestHandler) -> Reply:
        answers = {"/report": pages.page, "/report/status.json": pages.status_json}
        return answers[asked.path](asked) if asked.path in answers else Reply(404, b"", {})

    server = HttpServer("http", "127.0.0.1:0", "GET", answer)
    page.problems.clear()
    try:
        page.open(f"http://127.0.0.1:{server.server_address[1]}/report")
        page.wait_for("document.getElementById('live').textContent.includes('No reconciler has reported yet')")
        reported.append(status)
        page.wait_for("document.querySelector('#live table') !== null")
        text = page.evaluate("document.getElementById('live').textContent")
        for words in ("one object is held", "Job team/<b>evil</b>", "fields of others", "1 run ended"):
            assert words in text
        page.evaluate("[...document.querySelectorAll('#live summary')].at(-2).click()")
        page.wait_for("document.getElementById('live').innerText.includes('12:00 UTC: waits; GW101')")
        assert "train" in page.evaluate("document.getElementById('head').textContent")
        status["digest"] = second.digest
        page.wait_for(f"document.getElementById('foot').textContent.includes({json.dumps(second.digest)})")
        assert "other" in page.evaluate("document.getElementById('head').textContent")
    finally:
        page.evaluate("window.stop()")
        server.shutdown()
        server.server_close()
    page.settle()
    assert [problem for problem in page.problems if "favicon" not in str(problem)] == []
