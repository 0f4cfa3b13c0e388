"""An answer is kept exactly as long as what it rests on."""

from __future__ import annotations

from reconciler.threads.memo import Memo


def test_an_answer_is_made_anew_only_when_an_input_has_changed() -> None:
    memo: Memo[int] = Memo()
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        return len(made)

    pods = [{"name": "a"}]
    assert memo.get((pods, "x"), make) == 1
    assert memo.get((list(pods), "x"), make) == 1
    assert memo.get(([*pods, {"name": "b"}], "x"), make) == 2
    assert memo.get(([*pods, {"name": "b"}], "y"), make) == 3
    assert memo.get(([*pods, {"name": "b"}],), make) == 4
