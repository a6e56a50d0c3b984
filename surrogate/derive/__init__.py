"""What follows from a runs table: the target, parameters, FLOPs, utilisation, groups, and the shipped table."""

from surrogate.derive.build import build_runs, check_table, load_runs
from surrogate.derive.columns import derive_columns
from surrogate.derive.plausibility import utilisation_problems
from surrogate.derive.summary import RunsSummary, summarise_runs

__all__ = [
    "RunsSummary",
    "build_runs",
    "check_table",
    "derive_columns",
    "load_runs",
    "summarise_runs",
    "utilisation_problems",
]
