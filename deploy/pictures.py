"""The pictures of the concepts: sections of the report page, of repositories that are planned when the site is built.

A page names one as ![caption](picture:NAME). It is a frame, so it follows the reader's colour scheme and width.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.cluster_state.cluster_state import ClusterState, load_state
from compiler.comparison.compare import Comparison, Revision, compare
from compiler.comparison.render import comparison_base
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository, compile_specs
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.views.report.page import Base, page_of, report_document

ROOT = Path(__file__).resolve().parents[1]
FRAME = re.compile(r'<iframe src="([^"]+)"')
NAMED = re.compile(r"^!\[(.+)\]\(picture:(\w+)\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Picture:
    """case: folder of tests/golden; empty for the living example. height: of the frame, in pixels. mode: colours
    (a key of MODES in picture.js). removed: a file that leaves the repository; the picture then compares the two
    revisions."""

    case: str
    sections: tuple[str, ...]
    height: int
    mode: str = "job"
    removed: str = ""

    def page(self) -> str:
        folder = ROOT / "tests" / "golden" / self.case if self.case else ROOT
        if self.removed:
            comparison = _comparison(folder / "repo", self.removed)
            base = comparison_base(comparison, "the commit before")
            if base is None or comparison.after is None:
                raise ValueError(f"a revision of {self.case} has no plan")
            return self._cropped(comparison.after, base)
        repo, state = folder / "repo" if self.case else folder, folder / "state.yaml"
        read = load_state(state.read_bytes()) if state.is_file() else None
        outcome = compile_repository(Repository.from_directory(repo), state=read)
        return self._cropped(outcome)

    def _cropped(self, outcome: Outcome, base: Base | None = None) -> str:
        """The sections of the page, by their ids in page.html."""
        crop = {"sections": list(self.sections), "mode": self.mode}
        return page_of({**report_document(outcome, base), "crop": crop})


PICTURES: Mapping[str, Picture] = {
    "gang": Picture("five-gangs", ("cluster", "waiting"), 470),
    "queues": Picture("", ("queues",), 630),
    "topology": Picture("hard-topology", ("cluster",), 240),
    "reservation": Picture("reservation", ("cluster", "time"), 700),
    "eviction": Picture("preempt", ("evictions", "cluster"), 390, "state"),
    "binding": Picture("running", ("cluster",), 260, "state"),
    "pruning": Picture("hard-topology", ("changes", "cluster"), 530, "state", removed="jobs/whole.yaml"),
}


def frames_without_picture(site: Path) -> list[str]:
    """Return the pages of the built site with a frame that shows nothing, each with the frame's address."""
    return [
        f"{page.relative_to(site)}: {source}"
        for page in sorted(site.rglob("*.html"))
        for source in FRAME.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / source).is_file()
    ]


def picture_pages(pages: Mapping[str, str]) -> dict[str, str]:
    """Return the HTML of each picture that one of the pages shows: path below docs/ -> HTML."""
    named = {name for text in pages.values() for _, name in NAMED.findall(text)}
    return {f"pictures/{name}.html": PICTURES[name].page() for name in sorted(named)}


def with_frames(page: str, text: str) -> str:
    """Return the text of a page below docs/ with a frame for each picture."""
    up = "../" * page.count("/")  # Zensical changes it, as each page is a folder of the site

    def frame(found: re.Match[str]) -> str:
        about, name = found.groups()
        style = f"width:100%;height:{PICTURES[name].height}px;border:0"
        source = f"{up}pictures/{name}.html"
        return f'<iframe src="{source}" title="{html.escape(about)}" style="{style}" loading="lazy"></iframe>'

    return NAMED.sub(frame, text)


def _comparison(repo: Path, removed: str) -> Comparison:
    tree = Repository.from_directory(repo)
    return compare(
        _revision(tree),
        _revision(Repository({name: text for name, text in tree.files.items() if name != removed})),
        None,
    )


def _revision(tree: Repository) -> Revision:
    specs = read_specs(tree)

    def compile_against(state: ClusterState | None) -> Outcome:
        return compile_specs(tree, specs, state)

    return Revision(specs, compile_against)
