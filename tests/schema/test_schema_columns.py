"""The column declarations: complete, unique, and documented as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from surrogate.schema import COLUMNS, INPUT_COLUMNS, REQUIRED_COLUMNS, Kind
from surrogate.schema.columns import BY_PUBLISHED_NAME
from surrogate.schema.reference import column_reference

ROOT = Path(__file__).parents[2]


def test_every_name_is_declared_once():
    names = [column.name for column in COLUMNS] + list(BY_PUBLISHED_NAME)
    assert len(names) == len(set(names))


def test_required_columns_are_the_documented_ones():
    expected = {"num_layers", "hidden_size", "num_heads", "seq_len", "accelerator", "num_gpus", "tp", "pp"}
    assert set(REQUIRED_COLUMNS) == expected | {"global_batch_size"}


def test_derived_columns_are_no_inputs():
    assert "measured_step_time_s" not in INPUT_COLUMNS
    assert {"quality", "split_group", "repeat_group", "publisher_family"} <= set(INPUT_COLUMNS)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_units_live_in_names(column):
    suffix = {"s": "_s", "B": "_bytes", "B/s": "_bytes_per_s", "FLOP/s": "_flops_per_s"}.get(column.unit)
    assert suffix is None or suffix in column.name
    assert column.kind is Kind.TEXT or not column.allowed
    assert column.meaning


def test_column_reference_in_data_is_current():
    assert (ROOT / "data" / "COLUMNS.md").read_text() == column_reference()
