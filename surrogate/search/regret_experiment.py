"""The experiment `experiments/search_regret`: studies against the optimum, and picks against measured sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import pandas as pd

from surrogate.errors import InputError
from surrogate.evaluation import HYBRID, METHODS, evaluate, group_rankings
from surrogate.evaluation.folds import timed_runs
from surrogate.evaluation.ranking import ranking_keys
from surrogate.search.evaluation import SearchPredictor
from surrogate.search.regret import measure_regrets, problem_table, regret_table

PROTOCOL: Final = "new-layout"
VTRAIN: Final = "vtrain"
_BY: Final = ["protocol", "variant", "draw", "method"]


def run_experiment(config: Mapping[str, object], folder: Path) -> str:
    """Run the experiment and return its tables as markdown.

    Parameters
    ----------
    config : mapping
        ``problems`` (plans by name), ``trials``, ``seeds``; ``runs`` (path relative to ``folder``) for the measured
        sweeps, ``model_dir`` for another predictor than the packaged one.
    folder : Path
        The experiment's own folder.

    Raises
    ------
    InputError
        If ``problems`` is missing.
    """
    parts = []
    if config.get("problems"):
        parts += _against_optimum(config, folder)
    if config.get("runs"):
        parts += _against_reality(folder / str(config["runs"]))
    if not parts:
        raise InputError("config", "must have problems or runs", dict(config))
    return "\n\n".join(parts) + "\n"


def _against_optimum(config: Mapping[str, object], folder: Path) -> list[str]:
    from surrogate import api

    model_dir = config.get("model_dir")
    predictor = api.load_predictor(None if model_dir is None else folder / str(model_dir))
    trials = cast("list[int]", config.get("trials", [25, 50, 100, 200, 300]))
    seeds = cast("list[int]", config.get("seeds", [0]))
    problems = cast("Mapping[str, Mapping[str, object]]", config["problems"])
    results = measure_regrets(problems, cast(SearchPredictor, predictor), trials=trials, seeds=seeds)
    studies = regret_table(results, trials)
    tpe = [result.study_s for result in results if result.algorithm == "tpe"]
    sizes = {result.problem: (result.candidates, result.enumeration_s) for result in results}
    rate = sum(count for count, _ in sizes.values()) / sum(seconds for _, seconds in sizes.values())
    return [
        f"Regret to the exhaustive optimum, {len(problems)} problems, seeds {', '.join(map(str, seeds))}:",
        _markdown(studies, percent=("median", "mean", "worst")),
        f"Enumeration: {rate:,.0f} candidates a second; the slowest TPE study took {max(tpe):.1f} s.",
        _markdown(problem_table(results), percent=("tpe", "nsga2", "random")),
    ]


def _against_reality(runs: Path) -> list[str]:
    """Return the measured loss of the predictor's pick within measured sweeps, predicted out of sample."""
    from surrogate.derive import load_runs

    timed = timed_runs(load_runs(runs))
    evaluation = evaluate(timed, protocols=[PROTOCOL], methods={HYBRID: METHODS[HYBRID]})
    keys = ranking_keys(timed).assign(run_id=timed["run_id"], on_one_node=timed["num_gpus"] <= timed["gpus_per_node"])
    predictions = evaluation.predictions.merge(keys, on="run_id", validate="many_to_one")
    groups = group_rankings(predictions, _BY)
    nodes = predictions.groupby("ranking_group")["on_one_node"].all()
    groups = groups.assign(on_one_node=groups["ranking_group"].map(nodes))
    by_source = groups.groupby("source").agg(
        groups=("regret", "size"), spearman=("spearman", "mean"), regret=("regret", "mean")
    )
    of_vtrain = groups[groups["source"].str.contains(VTRAIN)]
    vtrain = of_vtrain.groupby("on_one_node").agg(
        groups=("regret", "size"), spearman=("spearman", "mean"), regret=("regret", "mean")
    )
    average = by_source["regret"].mean()
    return [
        f"Measured loss of the pick, {PROTOCOL} folds: {average:.2%} averaged over {len(by_source)} sources.",
        _markdown(by_source.sort_values("groups", ascending=False).reset_index(), percent=("regret",)),
        "vTrain's sweeps, on one node and on several:",
        _markdown(vtrain.reset_index(), percent=("regret",)),
    ]


def _markdown(table: pd.DataFrame, *, percent: tuple[str, ...]) -> str:
    """Return a table in markdown; the named columns in percent."""
    lines = [list(map(str, table.columns)), ["---"] * len(table.columns)]
    for record in table.to_dict("records"):
        lines.append([_cell(value, in_percent=name in percent) for name, value in record.items()])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any, *, in_percent: bool) -> str:
    if in_percent:
        return f"{100.0 * float(value):.2f} %"
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
