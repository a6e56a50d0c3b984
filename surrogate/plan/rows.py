"""Plans as rows of the runs table, one or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from surrogate.plan.edge import known_keys
from surrogate.plan.parse import parse_partial_plan
from surrogate.plan.plan import ORIGIN_COLUMNS, SECTION_COLUMNS, PartialPlan, Plan
from surrogate.plan.values import Value
from surrogate.schema.columns import COLUMN_BY_NAME, INPUT_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

_PLAN_KEYS: Final = frozenset(known_keys())


def plan_to_row(plan: Plan) -> dict[str, Value | None]:
    """Return a plan as one row of the runs table.

    Parameters
    ----------
    plan : Plan
        A complete plan.

    Returns
    -------
    dict
        Every plan column in the order of the runs table, None where nothing is said; `run_id` is the plan's name and
        `dp` is always given.
    """
    values: dict[str, Value | None] = {"run_id": plan.name}
    values |= {column: getattr(plan, column) for column in ORIGIN_COLUMNS}
    for section, columns in SECTION_COLUMNS.items():
        spec = getattr(plan, section)
        values |= {column: getattr(spec, column) for column in columns}
    values["dp"] = plan.dp
    return {column: values[column] for column in INPUT_COLUMNS if column in values}


def row_to_partial_plan(row: Mapping[str, object]) -> PartialPlan:
    """Return what a row of the runs table says about the configuration; measured and derived columns are left out.

    Raises
    ------
    InputError
        If a value is impossible or the accelerator is unknown.
    """
    given = {str(key): _plain(value) for key, value in row.items() if key in _PLAN_KEYS and not _is_missing(value)}
    run_id = row.get("run_id")
    return parse_partial_plan(given, "row" if run_id is None or _is_missing(run_id) else str(run_id))


def row_to_plan(row: Mapping[str, object]) -> Plan:
    """Return the plan of one row of the runs table; the inverse of `plan_to_row`.

    Parameters
    ----------
    row : Mapping[str, object]
        Values by column, canonical or in published units; NA, NaN and None count as not said.

    Raises
    ------
    InputError
        If required values are missing, a value is impossible or the parts contradict each other.
    """
    return row_to_partial_plan(row).complete()


def plans_to_frame(plans: Sequence[Plan]) -> pd.DataFrame:
    """Return plans as a runs table, with the dtypes of the schema.

    Parameters
    ----------
    plans : sequence of Plan
        At least one.

    Returns
    -------
    pandas.DataFrame
        One row per plan, in order.
    """
    import pandas as pd

    rows = [plan_to_row(plan) for plan in plans]
    dtypes: dict[str, Any] = {column: COLUMN_BY_NAME[column].kind.value for column in rows[0]}
    return pd.DataFrame(
        {column: pd.array([row[column] for row in rows], dtype=dtype) for column, dtype in dtypes.items()}
    )


def _is_missing(value: object) -> bool:
    """Return whether a cell is None, NaN or NA; NaN differs from itself and NA compares to nothing."""
    return value is None or str(value) in ("<NA>", "nan", "NaN", "NaT", "")


def _plain(value: object) -> object:
    """Return a numpy scalar as the Python value it holds."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value
