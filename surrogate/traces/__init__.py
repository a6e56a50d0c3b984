"""Profiler traces: reading, task graph, replay, breakdown, what-if and calibration."""

from surrogate.traces.build import build_graph
from surrogate.traces.calibration import Prior, coefficient_priors, priors_path, run_row
from surrogate.traces.columns import Trace, TraceInfo
from surrogate.traces.edits import Edit, parse_edit
from surrogate.traces.graph import Dependency, TaskGraph
from surrogate.traces.layout import predict_pipeline
from surrogate.traces.pipeline import MeasuredPipeline, is_pipeline_folder, read_pipeline, replay_pipeline
from surrogate.traces.reader import read_trace, read_traces
from surrogate.traces.replay import Replay, replay
from surrogate.traces.report import TraceReport, analyse_traces, as_plain
from surrogate.traces.simulate import Timeline, simulate

__all__ = [
    "Dependency",
    "Edit",
    "MeasuredPipeline",
    "Prior",
    "Replay",
    "TaskGraph",
    "Timeline",
    "Trace",
    "TraceInfo",
    "TraceReport",
    "analyse_traces",
    "as_plain",
    "build_graph",
    "coefficient_priors",
    "is_pipeline_folder",
    "parse_edit",
    "predict_pipeline",
    "priors_path",
    "read_pipeline",
    "read_trace",
    "read_traces",
    "replay",
    "replay_pipeline",
    "run_row",
    "simulate",
]
