"""Candidates as the analytic model's input, without passing a table of text through imputation.

What imputation fills depends on a few settings only. Every combination of those is prepared once, as a table; a
candidate takes its combination's row and its own layout. The result equals `prepare_runs` of the candidates' table, but
for the flags of filled cells, which are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import product
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.software import SoftwareTraits
from surrogate.analytic.workload import FloatArray, IntArray, Schedule, Workload
from surrogate.features.hardware import Hardware
from surrogate.features.imputation import Imputer
from surrogate.features.stacks import StackTraits
from surrogate.features.workload import PreparedRuns, prepare_runs
from surrogate.search.derived import recomputed_chunk_layers
from surrogate.search.domains import FOLLOWS_VP
from surrogate.search.enumeration import block_length
from surrogate.search.space import CandidateColumns, Codes, SearchSpace, typed_frame

CONTEXT_COLUMNS: Final = ("accelerator", "precision", "zero_stage", "recompute", "pipeline_schedule", "cpu_offload")
"""Settings on which imputation depends."""

_PLACEHOLDER: Final = {"num_gpus": 2, "tp": 1, "pp": 2, "cp": 1, "vp": 1, "ep": 1, "sequence_parallel": False}
_PLACEHOLDER_BATCH: Final = {"global_batch_size": 2, "micro_batch_size": 1}
"""A layout with a pipeline, under which a named schedule keeps its name."""

_Columns = TypeVar("_Columns", Workload, SoftwareTraits, Hardware, StackTraits)

_SITE_COLUMNS: Final = ("source", "publisher_family", "date", "framework", "framework_version", "stack")


class CandidatePreparer:
    """Turns codes of candidates into `PreparedRuns`.

    Parameters
    ----------
    space : SearchSpace
        The space the codes belong to.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self._domains = [space.domains[name] for name in CONTEXT_COLUMNS]
        self._given = {name: value for name, value in space.plan.values.items() if name not in space.domains}
        rows = [self._context_row(values) for values in product(*(domain.values for domain in self._domains))]
        self.context_runs = typed_frame(pd.DataFrame(rows, dtype=object))
        self.contexts = prepare_runs(self.context_runs)

    def site_runs(self, count: int) -> pd.DataFrame:
        """Return what says who trains, once per candidate: a table of n rows."""
        site = {name: self._given[name] for name in _SITE_COLUMNS if name in self._given}
        return pd.DataFrame(site, index=pd.RangeIndex(count)).astype(dict.fromkeys(site, "object"))

    def prepare(self, codes: Mapping[str, Codes]) -> PreparedRuns:
        """Return candidates ready for the analytic model.

        Parameters
        ----------
        codes : Mapping[str, ndarray of shape (n,)]
            One code per column of the space.
        """
        count, rows = block_length(codes), self._context_of(codes)
        contexts = self.contexts
        return PreparedRuns(
            workload=self._workload(
                self.space.columns(codes), _take(contexts.workload, rows, count, Workload), rows, count
            ),
            software=_take(contexts.software, rows, count, SoftwareTraits),
            hardware=_take(contexts.hardware, rows, count, Hardware),
            stack=_take(contexts.stack, rows, count, StackTraits),
            imputer=Imputer(self.site_runs(count)),
        )

    def _context_row(self, values: tuple[Any, ...]) -> dict[str, Any]:
        settings = dict(zip(CONTEXT_COLUMNS, values, strict=True))
        if settings["pipeline_schedule"] == FOLLOWS_VP:
            settings["pipeline_schedule"] = "1f1b"
        return {**self._given, **_PLACEHOLDER, **_PLACEHOLDER_BATCH, **settings}

    def _context_of(self, codes: Mapping[str, Codes]) -> IntArray:
        row = np.zeros(block_length(codes), dtype=np.int64)
        for domain in self._domains:
            row = row * len(domain) + codes[domain.name]
        return row

    def _workload(self, c: CandidateColumns, w: Workload, rows: IntArray, count: int) -> Workload:
        def column(name: str) -> FloatArray:
            return np.broadcast_to(np.asarray(c[name], dtype=np.float64), (count,))

        dp, pp, vp = column("dp"), column("pp"), column("vp")
        is_moe = w.num_experts > 0.0
        return replace(
            w,
            num_gpus=column("num_gpus"),
            tp=column("tp"),
            pp=pp,
            cp=column("cp"),
            dp=dp,
            vp=vp,
            global_batch_size=column("global_batch_size"),
            ep=np.where(is_moe, column("ep"), 1.0),
            expert_tp=np.where(is_moe, column("expert_tp"), 1.0),
            sequence_parallel=np.asarray(c["sequence_parallel"], dtype=np.bool_) & (column("tp") > 1.0),
            shard_size=self._shard_size(c, column("dp") * column("cp"), rows),
            schedule=_schedule(w.schedule, pp, vp),
            micro_batch_size=np.minimum(column("micro_batch_size"), np.maximum(column("global_batch_size") / dp, 1.0)),
            recompute_layers=self._recomputed_layers_per_stage(c, w, count),
        )

    def _shard_size(self, c: CandidateColumns, ranks: FloatArray, rows: IntArray) -> FloatArray:
        """Return the ranks that share parameters: the given group, a TPU slice, or all data and context ranks."""
        hardware, most = self.contexts.hardware, ranks
        if "hsdp_shard" in self._given:
            most = np.full_like(ranks, float(self._given["hsdp_shard"]))
        elif hardware.is_tpu.any():
            domain = hardware.fast_domain_gpus[rows]
            most = np.where(hardware.is_tpu[rows] & (c["num_gpus"] > domain), domain / c["tp"], ranks)
        return np.clip(np.minimum(most, ranks), 1.0, None)

    def _recomputed_layers_per_stage(self, c: CandidateColumns, w: Workload, count: int) -> FloatArray:
        stage = c["num_layers"] / c["pp"]
        layers = np.broadcast_to(recomputed_layers(c), (count,))
        return np.where(w.recompute == 0, 0.0, np.where(np.isnan(layers), stage, layers))


def recomputed_layers(c: CandidateColumns) -> FloatArray:
    """Return the layers that each stage recomputes; NaN where it is all of them (column `recompute_layers`)."""
    if "recompute_layers" in c.space.constants:
        return np.asarray(c["recompute_layers"], dtype=np.float64)
    share = np.asarray(c["recompute_share"])
    covered = recomputed_chunk_layers(share, c["layers_per_chunk"]) * c["vp"]
    return np.where(share < 1.0, np.minimum(covered, np.ceil(c["num_layers"] / c["pp"])), np.nan)


def candidate_frame(space: SearchSpace, codes: Mapping[str, Codes]) -> pd.DataFrame:
    """Return candidates as a runs table, with the dtypes of the schema.

    Parameters
    ----------
    codes : Mapping[str, ndarray of shape (n,)]
        One code per column of the space.
    """
    count = block_length(codes)
    columns = space.columns(codes)
    table = pd.DataFrame(
        {name: value for name, value in space.plan.values.items() if name not in space.domains},
        index=pd.RangeIndex(count),
        dtype=object,
    )
    searched = {name: columns[name] for name in space.domains if name != "recompute_share"}
    searched["pipeline_schedule"] = _schedule_names(columns)
    searched["recompute_layers"] = np.broadcast_to(recomputed_layers(columns), (count,))
    searched["dp"] = columns["dp"]
    return typed_frame(table.assign(**searched))


def _schedule_names(c: CandidateColumns) -> NDArray[Any]:
    usual = np.where(c["vp"] > 1.0, "interleaved-1f1b", "1f1b")
    return np.where(c["pipeline_schedule"] == FOLLOWS_VP, usual, c["pipeline_schedule"])


def _schedule(named: IntArray, pp: FloatArray, vp: FloatArray) -> IntArray:
    """Return the schedule: a named one that is not plain 1F1B keeps its name wherever there is a pipeline."""
    usual = np.where(vp > 1.0, int(Schedule.INTERLEAVED), int(Schedule.ONE_F_ONE_B))
    return np.where((named == int(Schedule.ONE_F_ONE_B)) | (pp <= 1.0), usual, named).astype(np.int64)


def _gather(values: Any, rows: IntArray, count: int) -> Any:
    """Return the rows of a column; a column with one value is broadcast instead of copied."""
    if isinstance(values, pd.Categorical):
        return values.take(rows)
    if len(values) and (values == values[0]).all():
        return np.broadcast_to(values[0], (count,))
    return values[rows]


def _take(table: Any, rows: IntArray, count: int, kind: type[_Columns]) -> _Columns:
    columns = {field.name: _gather(getattr(table, field.name), rows, count) for field in fields(kind)}
    return kind(**columns)
