"""Pages and pictures."""

from surrogate.report.accuracy import accuracy_artifacts
from surrogate.report.plan_page import plan_page

__all__ = ["accuracy_artifacts", "plan_page"]
