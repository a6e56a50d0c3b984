"""The model against published figures."""

from surrogate.reliability.validation.case import CaseResult
from surrogate.reliability.validation.run import markdown_table, run_experiment, validate

__all__ = ["CaseResult", "markdown_table", "run_experiment", "validate"]
