"""What is said of amounts whose unit is not one of Kubernetes'."""

from __future__ import annotations

import pytest

from compiler.fields.quantity import QuantityError, lost_unit, parse_quantity


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("64GB", "write 64G or 64Gi"),
        ("64gb", "write 64G or 64Gi"),
        ("64g", "write 64G or 64Gi"),
        ("64gi", "write 64Gi"),
        ("1.5GiB", "write 1.5Gi"),
        ("512KB", "write 512k or 512Ki"),
        ("512K", "write 512k or 512Ki"),
        ("8c", "write 8"),
        ("8cores", "write 8"),
        ("8 Gi", "remove the blank before 'Gi'"),
    ],
)
def test_a_unit_as_people_write_it_is_told_with_the_one_of_kubernetes(text: str, help: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert caught.value.help == help


@pytest.mark.parametrize(
    ("value", "help"),
    [
        (64, "write 64Mi or 64Gi"),
        ("512m", "write 512Mi or 512Gi"),
        ("1000000001m", "write it with the unit M, Mi, G or Gi"),
        ("128974848000m", None),
        (128974848, None),
        ("1Ki", None),
        (0, None),
        (True, None),
    ],
)
def test_a_few_bytes_of_memory_have_lost_their_unit(value: object, help: str | None) -> None:
    found = lost_unit("memory", value)
    assert (found and found[1]) == help
    assert lost_unit("cpu", value) is None
