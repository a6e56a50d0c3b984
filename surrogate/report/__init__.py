"""Pages and pictures."""

from surrogate.report.accuracy import accuracy_artifacts
from surrogate.report.memory_images import memory_artifacts
from surrogate.report.plan_page import plan_page

__all__ = ["accuracy_artifacts", "memory_artifacts", "plan_page"]
