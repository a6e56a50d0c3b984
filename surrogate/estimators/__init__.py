"""Estimators: calibrated analytic model, residual, hybrid, intervals, memory."""

from surrogate.estimators.analytic_model import AnalyticModel
from surrogate.estimators.hybrid import HybridPredictor

__all__ = ["AnalyticModel", "HybridPredictor"]
