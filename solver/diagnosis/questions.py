"""Why the waiting gangs wait: one question for each kind of them, none of which needs another's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from solver.diagnosis import DiagnosisState, Explanation, diagnosis_class, explain
from solver.mip.executors import Mapper

WORK_PER_QUESTION, WORK_PER_NODE = 5_000, 7
"""Work of one question, and more for each node of the cluster (`Mapper`); measured on worlds of 1,000 and 10,000 nodes."""


def explanations(state: DiagnosisState, gangs: Iterable[int], mapper: Mapper) -> Mapping[int, Explanation]:
    """Facts and repairs of each of the gangs, all of which wait."""
    kinds: dict[object, list[int]] = {}
    for j in gangs:
        kinds.setdefault(diagnosis_class(state, j), []).append(j)
    work = len(kinds) * (WORK_PER_QUESTION + WORK_PER_NODE * len(state.problem.nodes))
    answers = mapper.map(explain, state, [alike[0] for alike in kinds.values()], work)
    return {j: answer for alike, answer in zip(kinds.values(), answers, strict=True) for j in alike}
