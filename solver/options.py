"""How hard to try. Nothing here changes what a valid plan is."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Options:
    """Limits of one call of `solver.solve`.

    gap: relative gap at which an objective may stop; 0 asks for a proof. time_limit: seconds for the whole plan, the
    last safety; when it strikes the verdicts say so. max_nodes: branch-and-bound nodes of one solve, the deterministic
    limit that normally strikes first. joint_variables: priorities are decided in one model up to this many variables,
    and fair shares proved level by level;
        beyond it each priority has a model of its own, in which only the lowest shares are raised.
    share_variables: beyond this many even those are held at the greedy's, and only bounded. fair_levels: levels of
    progressive filling that are solved per priority; queues beyond them share by resources placed. batch_variables:
    gangs of one priority are taken into one model until it would have more variables than this. winner_variables: gangs
    that room is made for get it together, where their model has no more variables than this; 0 for one after another.
    deadline: `time.monotonic()` at which the time limit ends; set by `solve` itself. Pickled as seconds left, since
    each machine has its own clock. engine: "highs", or "cbc" where HiGHS is missing; None takes the first that is
    there.

    Raises ValueError, naming the option, for a value that is none: a negative limit, a gap that is no number, an engine
    that nobody knows.
    """

    gap: float = 0.0
    time_limit: float = 60.0
    max_nodes: int = 2_000
    seed: int = 7
    joint_variables: int = 800
    share_variables: int = 2_000
    fair_levels: int = 4
    batch_variables: int = 15_000
    preemptor_variables: int = 2_000
    deadline: float | None = None
    engine: Literal["highs", "cbc"] | None = None

    def __post_init__(self) -> None:
        for name in (
            "gap",
            "time_limit",
            "max_nodes",
            "joint_variables",
            "share_variables",
            "fair_levels",
            "batch_variables",
            "preemptor_variables",
        ):
            value = getattr(self, name)
            if not value >= 0:  # false for NaN too
                raise ValueError(f"{name}: {value} is not 0 or more")
        if self.engine not in (None, "highs", "cbc"):
            raise ValueError(f'engine: {self.engine!r} is neither "highs" nor "cbc"')

    def __getstate__(self) -> dict[str, Any]:
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        return state if self.deadline is None else {**state, "deadline": self.deadline - time.monotonic()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value if name != "deadline" or value is None else time.monotonic() + value)
