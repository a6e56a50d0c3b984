"""Rules between columns of one row, each a vectorised test; a rule is silent where a column it needs is NA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.schema.findings import Findings

Numbers = Mapping[str, NDArray[np.float64]]
_RATE_TOLERANCE: Final = 0.1
_MEASURED: Final = ("step_time_s", "tokens_per_s_per_gpu", "samples_per_s", "achieved_flops_per_s", "mfu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What must hold between columns.

    Parameters
    ----------
    column : str
        The column that the message names.
    text : str
        What must hold, as the end of a sentence.
    shown : tuple of str
        Columns whose values the message prints.
    broken : callable
        Numbers by column name, NaN where missing -> bool array, true where the rule is broken.
    """

    column: str
    text: str
    shown: tuple[str, ...]
    broken: Callable[[Numbers], NDArray[np.bool_]]


def _model_parallel(n: Numbers) -> NDArray[np.float64]:
    """Return tp*pp*cp, a missing cp counting as 1."""
    return n["tp"] * n["pp"] * np.where(np.isnan(n["cp"]), 1.0, n["cp"])


def _not_divisible(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where a is known not to be a multiple of b; zeros are the bounds' business."""
    remainder = np.mod(a, np.where(b > 0, b, np.nan))
    return remainder > 0


def _step_disagrees(n: Numbers, sequences_per_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where a printed rate implies another step time than the printed one."""
    return np.abs(n["step_time_s"] * sequences_per_s / n["global_batch_size"] - 1.0) > _RATE_TOLERANCE


RULES: Final = (
    Rule(
        column="num_gpus",
        text="must equal tp*pp*cp*dp",
        shown=("num_gpus", "tp", "pp", "cp", "dp"),
        broken=lambda n: np.abs(_model_parallel(n) * n["dp"] - n["num_gpus"]) > 0.0,
    ),
    Rule(
        column="num_gpus",
        text="must be a multiple of tp*pp*cp",
        shown=("num_gpus", "tp", "pp", "cp"),
        broken=lambda n: np.isnan(n["dp"]) & _not_divisible(n["num_gpus"], _model_parallel(n)),
    ),
    Rule(
        column="global_batch_size",
        text="must be a multiple of dp",
        shown=("global_batch_size", "dp"),
        broken=lambda n: _not_divisible(n["global_batch_size"], n["dp"]),
    ),
    Rule(
        column="global_batch_size",
        text="must be a multiple of dp*micro_batch_size",
        shown=("global_batch_size", "dp", "micro_batch_size"),
        broken=lambda n: (
            _not_divisible(n["global_batch_size"], n["dp"] * n["micro_batch_size"])
            & ~_not_divisible(n["global_batch_size"], n["dp"])
        ),
    ),
    Rule(
        column="num_heads",
        text="must be a multiple of tp",
        shown=("num_heads", "tp"),
        broken=lambda n: _not_divisible(n["num_heads"], n["tp"]),
    ),
    Rule(
        column="num_heads",
        text="must be a multiple of num_kv_heads",
        shown=("num_heads", "num_kv_heads"),
        broken=lambda n: _not_divisible(n["num_heads"], n["num_kv_heads"]),
    ),
    Rule(
        column="pp",
        text="must not exceed num_layers + 2 (embedding and head may be stages of their own)",
        shown=("pp", "num_layers"),
        broken=lambda n: n["pp"] > n["num_layers"] + 2.0,
    ),
    Rule(
        column="vp",
        text="must be 1 without a pipeline",
        shown=("vp", "pp"),
        broken=lambda n: (n["vp"] > 1) & (n["pp"] == 1),
    ),
    Rule(
        column="ep",
        text="must not exceed dp*cp*tp",
        shown=("ep", "dp", "cp", "tp"),
        broken=lambda n: n["ep"] * n["pp"] > n["num_gpus"],
    ),
    Rule(
        column="ep",
        text="must not exceed num_experts",
        shown=("ep", "num_experts"),
        broken=lambda n: (n["ep"] > 1) & (n["ep"] > n["num_experts"]),
    ),
    Rule(
        column="moe_top_k",
        text="must not exceed num_experts",
        shown=("moe_top_k", "num_experts"),
        broken=lambda n: n["moe_top_k"] > n["num_experts"],
    ),
    Rule(
        column="num_dense_layers",
        text="must not exceed num_layers",
        shown=("num_dense_layers", "num_layers"),
        broken=lambda n: n["num_dense_layers"] > n["num_layers"],
    ),
    Rule(
        column="recompute_layers",
        text="must not exceed num_layers",
        shown=("recompute_layers", "num_layers"),
        broken=lambda n: n["recompute_layers"] > n["num_layers"],
    ),
    Rule(
        column="hsdp_shard",
        text="must divide dp*cp",
        shown=("hsdp_shard", "num_gpus", "tp", "pp"),
        broken=lambda n: _not_divisible(n["num_gpus"] / (n["tp"] * n["pp"]), n["hsdp_shard"]),
    ),
    Rule(
        column="step_time_s",
        text="must agree with tokens_per_s_per_gpu within 10 % (seconds per step?)",
        shown=("step_time_s", "tokens_per_s_per_gpu", "num_gpus", "global_batch_size", "seq_len"),
        broken=lambda n: _step_disagrees(n, n["tokens_per_s_per_gpu"] * n["num_gpus"] / n["seq_len"]),
    ),
    Rule(
        column="step_time_s",
        text="must agree with samples_per_s within 10 % (seconds per step?)",
        shown=("step_time_s", "samples_per_s", "global_batch_size"),
        broken=lambda n: _step_disagrees(n, n["samples_per_s"]),
    ),
)

_NEEDED: Final = sorted({name for rule in RULES for name in rule.shown} | {"dp"})


def check_rules(runs: pd.DataFrame, findings: Findings) -> None:
    """Record every row that breaks a rule between columns.

    Parameters
    ----------
    runs : DataFrame
        Canonical columns, as `coercion.coerce` returns them.
    findings : Findings
        Receives the problems.
    """
    numbers = {name: runs[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in _NEEDED}
    with np.errstate(invalid="ignore", divide="ignore"):
        for rule in RULES:
            broken = rule.broken(numbers)
            if broken.any():
                findings.add(rule.column, rule.text, broken, _shown_together(runs, rule.shown, broken))
    _check_status(runs, findings)
    repeated = runs["run_id"].duplicated(keep=False).to_numpy()
    findings.add("run_id", "must be unique in the table", repeated, runs["run_id"])


def _check_status(runs: pd.DataFrame, findings: Findings) -> None:
    """Record rows that ran out of memory and yet carry a measured time or rate."""
    measured = runs[list(_MEASURED)].notna().to_numpy().any(axis=1)
    oom = (runs["status"] == "oom").to_numpy(dtype=bool)
    findings.add("status", "must be ok where a time or a rate was measured", oom & measured, runs["status"])


def _shown_together(runs: pd.DataFrame, names: tuple[str, ...], rows: NDArray[np.bool_]) -> pd.Series:
    """Return the named values of the marked rows as one text per row, empty elsewhere."""
    marked = runs.loc[rows, list(names)]
    joined = pd.Series("", index=marked.index, dtype="str")
    for name in names:
        value = marked[name].map("{:g}".format, na_action="ignore").astype("str").fillna("NA")
        joined = joined + ("" if name == names[0] else ", ") + name + "=" + value
    return joined.reindex(runs.index, fill_value="")
