"""Trace files to `Trace` columns: one file, or a folder of ranks in parallel."""

from __future__ import annotations

import ast
import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from surrogate.errors import FileFormatError, InputError
from surrogate.traces.builder import TraceBuilder
from surrogate.traces.columns import Trace, TraceInfo, json_object
from surrogate.traces.metadata import read_integer
from surrogate.traces.stream import TraceStream

TRACE_SUFFIXES: Final = (".json", ".json.gz")
_OTHER_ACCELERATORS: Final = ("mtia", "xpu", "hpu", "privateuse", "npu", "tpu")
_VERSION_KEYS: Final[tuple[str, ...]] = (
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
)


def read_trace(path: Path) -> Trace:
    """Read one Kineto / PyTorch profiler file.

    Parameters
    ----------
    path : Path
        A .json or gzipped .json file, an object with ``traceEvents`` or a bare list of events.

    Returns
    -------
    Trace
        Columns of the operators, runtime calls, annotations, synchronisation records and device events.

    Raises
    ------
    FileFormatError
        When the file is not a profiler trace, is cut off, or holds no event this reader knows.

    Notes
    -----
    Memory holds one chunk of events plus about 100 bytes per kept event.
    """
    stream = TraceStream(path)
    builder = TraceBuilder()
    with _garbage_collection_paused():
        for events in stream:
            builder.add(events)
    document = stream.preamble | stream.trailer
    trace = builder.build(_trace_info(path, document, builder))
    if not len(trace):
        raise FileFormatError(f"{path}: {_why_nothing(builder)}")
    return trace


def read_traces(paths: Sequence[Path], *, max_workers: int | None = None, scheduler: str | None = None) -> list[Trace]:
    """Read the trace files of one job, one per rank, in parallel.

    Parameters
    ----------
    paths : sequence of Path
        Files, or folders whose trace files are taken.
    max_workers : int, optional
        Processes; the number of CPUs by default. One file is read in this process.
    scheduler : str, optional
        Address of a Dask scheduler whose workers see the same files; needs the extra ``dask``.

    Returns
    -------
    list of Trace
        Sorted by rank, then by path.
    """
    files = find_trace_files(paths)
    workers = min(max_workers or os.cpu_count() or 1, len(files))
    if scheduler is not None:
        traces = _read_on_cluster(files, scheduler)
    elif workers > 1:
        with ProcessPoolExecutor(workers) as pool:
            traces = list(pool.map(read_trace, files))
    else:
        traces = [read_trace(file) for file in files]
    return sorted(traces, key=lambda trace: (trace.info.rank is None, trace.info.rank or 0, str(trace.info.path)))


def find_trace_files(paths: Iterable[Path]) -> list[Path]:
    """Return the trace files among `paths`; a folder stands for the .json and .json.gz files in it.

    Raises
    ------
    InputError
        When a path does not exist or a folder holds no such file.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.is_file() and each.name.endswith(TRACE_SUFFIXES))
            if not inside:
                raise InputError(
                    "TRACE", "must hold .json or .json.gz files", str(path), "name the trace files themselves"
                )
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise InputError("TRACE", "must be an existing file or folder", str(path))
    return files


def _read_on_cluster(files: Sequence[Path], scheduler: str) -> list[Trace]:
    connect = _dask_client()
    try:
        with connect(scheduler, timeout="10s") as client:
            gathered: list[Trace] = client.gather(client.map(read_trace, [file.resolve() for file in files]))
    except (OSError, ValueError) as error:
        raise InputError(
            "--scheduler", "must be the address of a running Dask scheduler", scheduler, str(error)
        ) from error
    return gathered


def _dask_client() -> Callable[..., Any]:
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise InputError(
            "--scheduler", "needs Dask", "an environment without it", "pip install 'surrogate[dask]'"
        ) from error
    client: Callable[..., Any] = Client
    return client


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Keep the collector from looking for cycles: parsed events have none, and it costs a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _trace_info(path: Path, document: dict[str, Any], builder: TraceBuilder) -> TraceInfo:
    distributed = json_object(document.get("distributedInfo"))
    properties = document.get("deviceProperties")
    devices = [json_object(each) for each in properties] if isinstance(properties, list) else []
    versions = {key: str(document[key]) for key in _VERSION_KEYS if key in document}
    if "nccl_version" in distributed:
        versions["nccl_version"] = str(distributed["nccl_version"])
    rank, world_size = (read_integer(distributed.get(key)) for key in ("rank", "world_size"))
    return TraceInfo(
        path=path,
        rank=rank if rank >= 0 else None,
        world_size=world_size if world_size > 0 else None,
        device_name=str(devices[0].get("name", "")) if devices else "",
        device_memory_bytes=float(max(read_integer(devices[0].get("totalGlobalMem")), 0)) if devices else 0.0,
        num_devices=len(devices),
        backend=str(distributed.get("backend", "")),
        versions=versions,
        groups=_process_groups(distributed.get("pg_config")),
        num_events=builder.num_events,
        accelerator_categories=tuple(
            category for category in builder.unknown_categories if category.startswith(_OTHER_ACCELERATORS)
        ),
    )


def _process_groups(config: object) -> dict[str, tuple[int, ...]]:
    """Ranks by group name; the list is JSON text in some versions."""
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return {}
    groups: dict[str, tuple[int, ...]] = {}
    for entry in config if isinstance(config, list) else []:
        group = json_object(entry)
        ranks = group.get("ranks")
        if isinstance(ranks, str):
            ranks = _literal_list(ranks)
        if "pg_name" in group and isinstance(ranks, list):
            groups[str(group["pg_name"])] = tuple(read_integer(rank) for rank in ranks)
    return groups


def _literal_list(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _why_nothing(builder: TraceBuilder) -> str:
    if not builder.num_events:
        return "no events: an empty trace"
    return f"not a Kineto trace: none of its {builder.num_events} events is an operator, runtime call or kernel"
