"""Pages and pictures."""

from surrogate.report.accuracy import accuracy_artifacts

__all__ = ["accuracy_artifacts"]
