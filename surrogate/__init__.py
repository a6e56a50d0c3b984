"""Hybrid predictor of LLM pre-training performance: step time, memory, failures, days and money."""

__version__ = "0.1.0"
