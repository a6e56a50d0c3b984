"""Profiler traces: reading, task graph, replay, breakdown, what-if and calibration."""
