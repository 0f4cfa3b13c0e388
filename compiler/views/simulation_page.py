"""A replay as a page with curves over time (`gangplan simulate --page`): its document, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.views.report import replay_page
from compiler.views.simulation import KIND, ContrastView, SimulationView, contrast_document, replay_data, size_text
from solver.simulation.pieces import joined
from solver.simulation.replay import Replay
from solver.simulation.shares import edges_of

PARTS = 300
"""Points of a curve on the page."""


def simulation_page(view: SimulationView, trace: str) -> str:
    """Return the page of policies side by side. trace: what the trace is called."""
    return replay_page(page_document(f"Replay of {trace}", view.replays, view.assumptions))


def comparison_page(view: ContrastView, trace: str) -> str:
    """Return the page of two revisions: their curves, and whose waits change."""
    document = page_document(
        f"Replay of {trace} under two revisions",
        {f"before: {view.base}": joined(view.trial.before), f"after: {view.head}": joined(view.trial.after)},
        [f"The policy is {view.policy}.", *view.notes],
    )
    return replay_page({**document, "comparison": contrast_document(view)})


def page_document(title: str, replays: Mapping[str, Replay], assumptions: Sequence[str]) -> dict[str, Any]:
    """replays: what each is called, and its entry of `simulate -o json` without jobs and with more points."""
    edges = edges_of(replays.values(), PARTS)
    return {
        **KIND,
        "kind": "SimulationPage",
        "title": title,
        "assumptions": [*assumptions],
        "replays": [
            {"name": name, "size": size_text(replay.workload), **replay_data(replay, edges)}
            for name, replay in replays.items()
        ],
    }
