"""Neighbourhood: the gangs of an opened supernode are placed again by the greedy in supernodes that are open anyway."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from solver.placement.realise import repack_tighter
from solver.placement.task import PlacementTask
from solver.search.search import Incumbent, Moves
from solver.semantics.placements import Placements


class EmptySupernodes:
    """The supernode with the fewest new pods first; ranked again after an improvement."""

    def __init__(self, task: PlacementTask) -> None:
        self.task = task

    def moves(self, incumbent: Incumbent[Placements]) -> Moves[Placements]:
        placements, new_pods = incumbent.solution, Counter[int]()
        opened = self._opened_supernodes(placements)
        for pods in self.task.new_pods(placements).values():
            for p in pods:
                new_pods[int(self.task.s.tree.leaf_of[p.node])] += p.pods
        for h in sorted(opened, key=lambda h: (new_pods[h], h)):
            # The other supernodes that its gangs have opened stay open to them.
            yield partial(self._place_outside, placements, h, (self.task.unopened.unopened_supernodes - opened) | {h})
            if incumbent.solution is not placements:
                return

    def _opened_supernodes(self, placements: Placements) -> frozenset[int]:
        opened = self.task.unopened.opened_nodes(self.task.new_pods(placements))
        return frozenset(int(self.task.s.tree.leaf_of[n]) for n in opened) & self.task.unopened.unopened_supernodes

    def _place_outside(self, placements: Placements, h: int, excluded: frozenset[int]) -> Placements | None:
        """Return the gangs with new pods in supernode h placed outside the excluded supernodes."""
        s = self.task.s
        new = self.task.new_pods(placements)
        freed = [j for j, pods in new.items() if any(s.tree.leaf_of[p.node] == h for p in pods)]
        others = {j: pods for j, pods in placements.items() if j not in freed}
        state = s.state_after(others)
        closed = np.isin(s.tree.leaf_of, sorted(excluded))
        state.free.amounts[closed], state.free.slots[closed] = 0, 0
        found = self.task.place_greedily(state, freed)
        if found is None or state.free_nodes.breaks_pod_rules:
            return None
        return repack_tighter(self.task, {j: found.get(j, pods) for j, pods in placements.items()})
