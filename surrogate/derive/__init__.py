"""What follows from a runs table: the target, parameters, FLOPs, utilisation, groups, and the shipped table."""

from surrogate.derive.build import build_runs, load_runs
from surrogate.derive.columns import derive_columns
from surrogate.derive.plausibility import utilisation_problems

__all__ = ["build_runs", "derive_columns", "load_runs", "utilisation_problems"]
