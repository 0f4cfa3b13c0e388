"""What is said of amounts whose unit is not one of Kubernetes'."""

from __future__ import annotations

import pytest

from compiler.fields.quantity import QuantityError, lost_unit, parse_quantity
from tests.builders.beside import beside

CASES = beside(__file__)


@pytest.mark.parametrize(("text", "help"), CASES["a unit as people write it is told with the one of kubernetes"])
def test_a_unit_as_people_write_it_is_told_with_the_one_of_kubernetes(text: str, help: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert caught.value.help == help


@pytest.mark.parametrize(("value", "help"), CASES["a few bytes of memory have lost their unit"])
def test_a_few_bytes_of_memory_have_lost_their_unit(value: object, help: str | None) -> None:
    found = lost_unit("memory", value)
    assert (found and found[1]) == help
    assert lost_unit("cpu", value) is None
