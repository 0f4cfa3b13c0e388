"""Why a gang waits, where no time is left for a proof."""

from __future__ import annotations

from solver import Options
from solver.facts import Undecided
from tests.builders.problems import gang, nodes, problem, role
from tests.unit.solver.diagnosis.test_reasons import decision

AT_ONCE = Options(time_limit=0.0)


def test_where_no_proof_is_found_in_time_nothing_is_blamed_and_nothing_promised() -> None:
    """Two fours and four threes fill two nodes of ten in one way only, which neither counting nor the greedy knows."""
    world = problem(nodes(2, gpu=10), gang("asks", role(2, gpu=4), role(4, gpu=3)))
    assert decision(world).action == "start"
    waits = decision(world, options=AT_ONCE)
    assert (waits.action, waits.facts, waits.repairs) == ("wait", (Undecided(),), ())


def test_what_counting_proves_is_said_in_no_time() -> None:
    world = problem(nodes(2, gpu=10), gang("asks", role(2, gpu=4), role(5, gpu=3)))
    assert [(fact.code, fact.never) for fact in decision(world, options=AT_ONCE).facts] == [("GW108", True)]
