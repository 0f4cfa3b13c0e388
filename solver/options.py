"""How hard to try. Nothing here changes what a valid plan is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """Limits of one call of `solver.solve`.

    gap: relative gap at which an objective may stop; 0 asks for a proof.
    time_limit: seconds for the whole plan, the last safety; when it strikes the verdicts say so.
    max_nodes: branch-and-bound nodes of one solve, the deterministic limit that normally strikes first.
    joint_variables: priorities are decided in one model up to this many variables, and fair shares proved level by level;
        beyond it each priority has a model of its own, in which only the lowest shares are raised.
    share_variables: beyond this many even those are held at the greedy's, and only bounded.
    fair_levels: levels of progressive filling that are solved per priority; queues beyond them share by resources placed.
    batch_variables: gangs of one priority are taken into one model until it would have more variables than this.
    deadline: `time.monotonic()` at which the time limit ends; set by `solve` itself.
    engine: "highs", or "cbc" where HiGHS is missing; None takes the first that is there.
    """

    gap: float = 0.0
    time_limit: float = 60.0
    max_nodes: int = 2_000
    seed: int = 7
    joint_variables: int = 800
    share_variables: int = 4_000
    fair_levels: int = 4
    batch_variables: int = 15_000
    deadline: float | None = None
    engine: Literal["highs", "cbc"] | None = None
