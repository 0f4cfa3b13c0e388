"""What will be free when."""

from __future__ import annotations

from solver.simulation.policies import Profile, lowest_numbered
from solver.simulation.room import Room
from tests.builders.simulations import job, machines


def test_moments_at_which_nothing_changes_any_more_are_forgotten() -> None:
    """Else each reservation that is made again leaves two of them, and a replay is ever slower."""
    room, role = Room.of_cluster(machines(2)), job("a", runs=1).role
    profile = Profile(room)
    holds = lowest_numbered(room, role) or ()
    assert profile.first_fit(5, role, lowest_numbered) == (0, holds)
    for start in (10, 20, 20):
        profile.take(start, 50, role, holds)
        profile.take(start, 50, role, holds, -1)
    assert profile.times == [0]
    profile.take(10, 50, role, holds)
    profile.take(20, 50, role, holds)
    profile.take(20, 50, role, holds, -1)
    assert profile.times == [0, 10, 50]
    profile.advance(10, room.up)
    profile.take(10, 50, role, holds, -1)
    assert profile.times == [10]
    assert profile.rooms[0].free.amounts.tolist() == room.free.amounts.tolist()
