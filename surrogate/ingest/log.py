"""Read one training log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from surrogate.ingest import oom
from surrogate.ingest.detect import detect_reader, reader_by_name
from surrogate.ingest.lines import Line, read_blocks, select_lines
from surrogate.ingest.printed import printed_settings
from surrogate.ingest.printed_names import DUMP_NEEDLES, HEADER_BYTES, HEADER_NEEDLES
from surrogate.ingest.readers import LogReader
from surrogate.ingest.readers.base import PatternReader
from surrogate.ingest.records import Event, Mark, Settings
from surrogate.ingest.report import LogReport, LogRun, Scalar
from surrogate.ingest.summary import summarise_run
from surrogate.ingest.thinning import StepLineFilter
from surrogate.ingest.tracker import RunTracker

_HEADER_RECORDS: Final = 200
_SHARED_COLUMNS: Final = (
    "accelerator", "num_gpus", "gpus_per_node", "seq_len", "num_layers", "hidden_size", "num_heads", "num_kv_heads",
    "ffn_hidden_size", "vocab_size", "model_name",
)  # fmt: skip


def read_log(path: str | Path, format: str | None = None, known: Mapping[str, Scalar] | None = None) -> LogReport:  # noqa: A002
    """Read a training log: its runs, their steady state, and what the log prints of the configuration.

    Parameters
    ----------
    path : str or Path
        Log file, plain or gzip; streamed, whatever its size.
    format : str, optional
        Reader to use; detected when None.
    known : mapping, optional
        Runs-table columns known from elsewhere (a plan): sizes of a step that a log need not print.

    Returns
    -------
    LogReport
        `runs` is empty when the file holds no training progress; `notes` then says so.

    Raises
    ------
    FileFormatError
        The file cannot be read.
    UnknownNameError
        No such format.
    """
    path = Path(path)
    factory = reader_by_name(format) if format is not None else detect_reader(path)
    reader = factory() if factory is not None else None
    tracker = RunTracker()
    if isinstance(reader, PatternReader):
        reader.wanted = tracker.wants
    for event in _events(path, reader, tracker):
        tracker.add(event)
    name = reader.name if reader is not None else ""
    framework = reader.framework if reader is not None else ""
    runs: list[LogRun] = []
    notes: list[str] = []
    for data in tracker.finish():
        before = {key: runs[-1].settings[key] for key in _SHARED_COLUMNS if key in runs[-1].settings} if runs else {}
        run = summarise_run(data, format_name=name, framework=framework, known=known or {}, before=before)
        if data.records or run.status == "oom":
            runs.append(run)
        else:
            notes += run.notes
    if tracker.num_left_out:
        notes.append(f"more than {len(tracker.runs)} runs; the {tracker.num_left_out} others are left out")
    if not runs:
        notes.insert(0, _nothing_found(name))
    return LogReport(path=str(path), format=name, runs=tuple(runs), notes=tuple(notes))


def _nothing_found(name: str) -> str:
    if name:
        return f"no step records of format {name}"
    return "no training progress of a known format; --format forces one"


def _events(path: Path, reader: LogReader | None, tracker: RunTracker) -> Iterator[Event]:
    """Events of the whole file in order: the reader's, printed settings and out-of-memory reports."""
    needles = (*(reader.needles if reader is not None else ()), *oom.NEEDLES, *DUMP_NEEDLES)
    step_lines = StepLineFilter(reader, tracker)
    done = 0
    for block in read_blocks(path):
        run = tracker.current
        in_header = done < HEADER_BYTES and (run is None or run.num_records < _HEADER_RECORDS)
        done += len(block)
        wanted = (*needles, *HEADER_NEEDLES) if in_header else needles
        for line in select_lines([block], wanted, step_lines.skips if step_lines.is_active else None):
            yield from _line_events(line, reader, in_header=in_header)
    if reader is not None:
        yield from reader.finish()


def _line_events(line: Line, reader: LogReader | None, *, in_header: bool) -> Iterator[Event]:
    if reader is not None:
        reader.is_step_line = False
        yield from reader.read(line)
        if reader.is_step_line:  # step lines name batch sizes too, which are not the configuration
            return
    report = oom.read_oom(line.text)
    if report is not None:
        yield Mark("oom" if report[0] == "oom" else "note", report[1])
    elif in_header or "......" in line.text:
        settings = printed_settings(line.text)
        if settings:
            yield Settings(settings)
