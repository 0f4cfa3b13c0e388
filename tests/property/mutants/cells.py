"""Cells of nodes that give what they do not have, or give it to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.plan import CellUse, Plan
from solver.problem import Cell, Portion, Problem
from solver.verify import verify
from tests.property.brute import running
from tests.property.mutants.parts import Mutant, Mutators, Placed, as_plan, edit, new_pods, some


def _celled(world: Problem, placed: Placed, random: Random, number: int) -> Iterator[tuple[Problem, Plan, int]]:
    """A role with new pods now takes all of one resource from `number` cells; each of its nodes has two cells that just hold them."""
    spots = [(g, t, r) for g, (t, _) in new_pods(world, placed) for r, amount in enumerate(world.gangs[g].roles[t].request) if amount]
    for g, t, r in some(random, spots):
        share = tuple(amount if k == r else 0 for k, amount in enumerate(world.gangs[g].roles[t].request))
        new = {spot: pods - running(world.gangs[g])[spot] for spot, pods in sorted(placed[g].items())}
        here = {node: pods for (role, node), pods in new.items() if role == t and pods > 0}
        full = [tuple(pods * amount for amount in share) for pods in (here.get(n, 0) for n in range(len(world.nodes)))]
        nodes = tuple(replace(node, cells=(Cell(0, full[n], full[n]),) * 2) for n, node in enumerate(world.nodes))
        gang = world.gangs[g]
        pickier = replace(gang, roles=edit(gang.roles, t, portions=(Portion(0, number, share),)))
        other = replace(world, nodes=nodes, gangs=(*world.gangs[:g], pickier, *world.gangs[g + 1 :]), divisions=("device",))
        made = as_plan(other, placed)
        uses = tuple(CellUse(t, node, c, pods) for node, pods in sorted(here.items()) for c in range(number))
        yield other, replace(made, decisions=edit(made.decisions, g, cells=uses)), g


def cell_filled_beyond_its_room(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, random.choice((1, 2))):
        assert not {violation.rule for violation in verify(other, made)} & {"cells"}
        use = random.choice(made.decisions[g].cells)
        cell = other.nodes[use.node].cells[use.cell]
        less = tuple(max(0, amount - 1) for amount in cell.free)
        nodes = edit(other.nodes, use.node, cells=edit(other.nodes[use.node].cells, use.cell, free=less))
        yield replace(other, nodes=nodes), made


def cells_of_a_pod_not_all_different(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """One cell, made large enough, gives what two should."""
    for other, made, g in _celled(world, placed, random, 2):
        roomy = tuple(2 * amount for amount in (max(use.pods for use in made.decisions[g].cells) * 8,) * len(world.resources))
        nodes = tuple(replace(node, cells=(Cell(0, roomy, roomy),) * 2) for node in other.nodes)
        uses = tuple(replace(use, pods=2 * use.pods) for use in made.decisions[g].cells if use.cell == 0)
        yield replace(other, nodes=nodes), replace(made, decisions=edit(made.decisions, g, cells=uses))


def cell_of_a_pod_forgotten(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, random.choice((1, 2))):
        first, *rest = made.decisions[g].cells
        fewer = (replace(first, pods=first.pods - 1), *rest) if first.pods > 1 and random.random() < 0.5 else tuple(rest)
        yield other, replace(made, decisions=edit(made.decisions, g, cells=fewer))


def cell_given_to_nobody(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, 1):
        use = made.decisions[g].cells[-1]
        wrong = random.choice((replace(use, cell=2), replace(use, role=use.role + 1), replace(use, node=len(world.nodes))))
        cells = (*made.decisions[g].cells, wrong)
        yield other, replace(made, decisions=edit(made.decisions, g, cells=cells))


def cell_uses_unsorted(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, 2):
        yield other, replace(made, decisions=edit(made.decisions, g, cells=made.decisions[g].cells[::-1]))


MUTATORS: Mutators = {
    cell_filled_beyond_its_room: "cells",
    cells_of_a_pod_not_all_different: "cells",
    cell_of_a_pod_forgotten: "cells",
    cell_given_to_nobody: "cells",
    cell_uses_unsorted: "cells",
}
