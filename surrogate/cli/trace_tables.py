"""Tables of `surrogate trace` for the terminal; numbers come ready from `surrogate.traces`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table

from surrogate.units import GIGA, MILLI, TERA

if TYPE_CHECKING:
    from surrogate.traces import Edit, TraceReport
    from surrogate.traces.replay import Replay
    from surrogate.traces.report import RankReport

MAX_STEPS_SHOWN: Final = 12
MAX_CLASSES_SHOWN: Final = 8


def working(what: str) -> Status:
    """Return a context that shows on the terminal's error stream that something is under way."""
    return Console(stderr=True).status(f"{what} traces")


def print_report(report: TraceReport) -> None:
    """Print a trace report: step time, breakdown by step, kernel classes, rates, stragglers, replay, what-if."""
    console = Console()
    console.print(f"step time {_ms(report.step_time_s)} (mean of the steady steps, slowest rank)", highlight=False)
    for rank in report.ranks:
        _print_rank(console, rank)
    if report.stragglers:
        rows = [
            (f"{s.rank}", _ms(s.mean_lateness_s), f"{s.last_fraction:.0%}", f"{s.num_calls}") for s in report.stragglers
        ]
        console.print(_table("Stragglers", ("rank", "mean lateness", "last to arrive", "calls"), rows))
    if report.replay:
        _print_replay(console, report, report.replay)
    if report.what_if:
        edits, predicted = ", ".join(report.what_if.edits), report.what_if.predicted_step_s
        console.print(
            f"with {edits}: {_ms(predicted)} per step, {report.what_if.speed_up:.3f} x as fast", highlight=False
        )
    for note in report.notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def print_pipeline(folder: Path, edits: Sequence[Edit], *, as_json: bool) -> None:
    """Replay a folder of measured pipeline times and print it beside the measured step."""
    from surrogate.traces import predict_pipeline, read_pipeline

    measured = read_pipeline(folder)
    replayed, predicted_s = predict_pipeline(measured, edits)
    p, v, m = measured.times.forward_s.shape
    facts = {
        "pp": p,
        "vp": v,
        "num_microbatches": m,
        "schedule": measured.schedule.name.lower(),
        "num_iterations": measured.num_iterations,
        "measured_step_s": replayed.measured_s,
        "replayed_step_s": replayed.simulated_s,
        "relative_error": replayed.relative_error,
        "textbook_step_s": replayed.textbook_s,
        "send_s": measured.times.send_s,
        "bubble_fraction": replayed.step.bubble_fraction,
    }
    if edits:
        facts |= {"what_if": [str(edit) for edit in edits], "predicted_step_s": predicted_s}
    if as_json:
        typer.echo(json.dumps(facts))
        return
    rows = [(name, _shown(name, value)) for name, value in facts.items()]
    Console().print(_table("Measured pipeline", ("quantity", "value"), rows))


def _print_rank(console: Console, rank: RankReport) -> None:
    name = f"rank {rank.rank}" if rank.rank is not None else Path(rank.path).name
    device = f" on {rank.device_name}" if rank.device_name else ""
    console.print(f"\n{name}{device}: {rank.num_events:,} events, {rank.num_kernels:,} kernels", highlight=False)
    parts = [(f"step {step.number}", step.period_s, step.window, step.kernels_launched) for step in rank.steps]
    parts = parts or [("whole trace", None, rank.whole, rank.num_kernels)]
    rows = [
        (
            label,
            "" if period is None else _number(period),
            _number(window.exposed_compute_s),
            _number(window.overlapped_s),
            _number(window.exposed_communication_s),
            _number(window.idle_s),
            f"{kernels:,}",
        )
        for label, period, window, kernels in parts[:MAX_STEPS_SHOWN]
    ]
    header = ("ms", "period", "compute", "overlapped", "exposed comm.", "idle", "kernels")
    console.print(_table("", header, rows))
    if len(parts) > MAX_STEPS_SHOWN:
        console.print(f"and {len(parts) - MAX_STEPS_SHOWN} more steps (--json shows all)", highlight=False)
    classes = [(c.kernel_class, _number(c.total_s), f"{c.num_events:,}") for c in rank.classes[:MAX_CLASSES_SHOWN]]
    console.print(_table("", ("kernel class", "ms", "events"), classes))
    for rate in rank.matrix_rates:
        console.print(f"matrix products {rate.number_format}: {rate.flops_per_s / TERA:.1f} TFLOP/s", highlight=False)
    if rank.device_copy_bytes_per_s:
        console.print(f"copies inside the device: {rank.device_copy_bytes_per_s / GIGA:.0f} GB/s", highlight=False)
    for call in rank.collective_rates:
        speeds = f"{call.bus_bytes_per_s / GIGA:.1f} GB/s, best {call.best_bus_bytes_per_s / GIGA:.1f} GB/s"
        console.print(f"{call.operation} over {call.group_size}: bus bandwidth {speeds}", highlight=False)


def _print_replay(console: Console, report: TraceReport, replay: Replay) -> None:
    rows = [
        ("measured step", _ms(replay.measured_step_s)),
        ("replayed step", f"{_ms(replay.replayed_step_s)} ({replay.relative_error:+.2%})"),
        ("from dependencies alone", _ms(report.dependencies_only_step_s or 0.0)),
        ("device waits without recorded cause", f"{replay.unexplained_wait_fraction:.1%}"),
        ("long host gaps without recorded cause", f"{replay.unexplained_gap_fraction:.1%}"),
        *((f"critical path: {kind}", _ms(time)) for kind, time in (report.path_time_s or {}).items() if time > 0),
    ]
    console.print(_table("Replay", ("quantity", "value"), rows))


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if not position else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _number(time_s: float) -> str:
    return f"{time_s / MILLI:.3f}"


def _ms(time_s: float) -> str:
    return f"{_number(time_s)} ms"


def _shown(name: str, value: object) -> str:
    if isinstance(value, float):
        return _ms(value) if name.endswith("_s") else f"{value:.2%}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
