"""Rows of a table that no framework can place, each with the rule it breaks: they get no prediction."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Final

import pandas as pd

from surrogate.analytic.memory import broken_rule_errors
from surrogate.errors import InputError
from surrogate.features.workload import prepare_runs
from surrogate.plan import ParallelismSpec, TrainingSpec
from surrogate.plan.rules import check_sharded_pipeline

_TEXTS: Final = ("pipeline_schedule", "fsdp", "framework", "stack")


def refused_rows(runs: pd.DataFrame) -> pd.Series:
    """Return the messages of rows that cannot be placed, by index.

    Parameters
    ----------
    runs : DataFrame of n rows
        Canonical columns; optional ones may be absent.

    Notes
    -----
    A rule counts where the field it names is given: what was filled by rule is nobody's wish.
    """
    messages = dict(_sharded_pipelines(runs)) | dict(_broken_rules(runs))
    return pd.Series(messages, dtype="str", index=pd.Index(list(messages), dtype=runs.index.dtype))


def _broken_rules(runs: pd.DataFrame) -> Iterator[tuple[Hashable, str]]:
    for row, error in broken_rule_errors(prepare_runs(runs).workload).items():
        if error.field in runs and pd.notna(runs[error.field].iloc[row]):
            yield runs.index[row], str(error)


def _sharded_pipelines(runs: pd.DataFrame) -> Iterator[tuple[Hashable, str]]:
    """Yield rows that shard gradients in a pipeline of a framework, where one is named, that keeps them whole."""
    if "zero_stage" not in runs:
        return
    suspects = runs[((runs["zero_stage"] > 1) & (runs["pp"] > 1)).fillna(False).to_numpy(dtype=bool)]
    texts = suspects.reindex(columns=list(_TEXTS)).astype(object)
    columns = [texts[name].where(texts[name].notna(), None) for name in _TEXTS]
    for index, pp, stage, *named in zip(suspects.index, suspects["pp"], suspects["zero_stage"], *columns, strict=True):
        message = _sharded_pipeline(int(pp), int(stage), *named)
        if message:
            yield index, message


@cache
def _sharded_pipeline(
    pp: int, zero_stage: int, schedule: str | None, fsdp: str | None, framework: str | None, stack: str | None
) -> str:
    """Return what a plan of these settings would be refused with, or nothing."""
    if framework is None and stack is None:
        return ""
    parallelism = ParallelismSpec(tp=1, pp=pp, zero_stage=zero_stage, fsdp=fsdp, pipeline_schedule=schedule)
    training = TrainingSpec(seq_len=1, global_batch_size=1, framework=framework, stack=stack)
    try:
        check_sharded_pipeline(parallelism, training)
    except InputError as error:
        return str(error)
    return ""
