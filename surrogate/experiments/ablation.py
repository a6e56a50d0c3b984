"""The experiment "what does each piece bring?": the predictor with pieces taken away, under the same protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pandas as pd

from surrogate.derive import load_runs
from surrogate.estimators.hybrid import PreparedTable, prepare_table, site_data, split_groups
from surrogate.estimators.scale_selection import ROWS_PER_SOURCE, select_scales
from surrogate.estimators.site_data import EffectScales, SiteData
from surrogate.estimators.site_effects import SiteEffects
from surrogate.estimators.training_rows import diverse_rows, noise_sd
from surrogate.evaluation import HYBRID, METHODS, Evaluation
from surrogate.evaluation.baselines import point_frame
from surrogate.evaluation.methods import MethodFactory
from surrogate.evaluation.scores import MEASURED
from surrogate.experiments.accuracy import checked_config, evaluate_sources
from surrogate.experiments.markdown import decimal, markdown_table, percent, question
from surrogate.experiments.tracked import track_methods
from surrogate.features.columns import numbers
from surrogate.schema import table_digest

_ROWS_PER_SOURCE: Final = 60
ScalesChange = Callable[[EffectScales], EffectScales]


class EffectsAlone:
    """Analytic model with site effects, without trees.

    Parameters
    ----------
    change : callable
        Takes the chosen scales and returns those to use; a level of scale 0 is taken away.
    """

    def __init__(self, change: ScalesChange) -> None:
        self.change = change

    def fit(self, runs: pd.DataFrame) -> Self:
        """Condition `effects_` on measured runs, as the hybrid does."""
        table = prepare_table(runs)
        rows = diverse_rows(table.runs, table.knobs, _ROWS_PER_SOURCE)
        few = diverse_rows(table.runs, table.knobs, ROWS_PER_SOURCE)
        data, groups = _data(table), split_groups(table.runs)
        scales = self.change(select_scales(data.take(few), groups[few]))
        self.effects_ = SiteEffects(scales).fit(data.take(rows), groups[rows])
        return self

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return step times."""
        table = prepare_table(runs)
        estimate = self.effects_.predict(table.terms, table.levels, table.knobs, with_spread=False)
        return point_frame(runs, np.exp(estimate.log_time))


def _data(table: PreparedTable) -> SiteData:
    return site_data(table, np.log(numbers(table.runs, MEASURED)), noise_sd(table.runs))


def without_levels(*levels: str) -> ScalesChange:
    """Return the change that sets coefficients and offsets of these levels to 0."""

    def change(scales: EffectScales) -> EffectScales:
        nothing = dict.fromkeys(levels, 0.0)
        return replace(scales, coefficients=scales.coefficients | nothing, offsets=scales.offsets | nothing)

    return change


def _one_factor_per_site(scales: EffectScales) -> EffectScales:
    nothing = {level: 0.0 for level in scales.coefficients if level != "global"}
    return replace(scales, coefficients=scales.coefficients | nothing)


def _effects(change: ScalesChange) -> MethodFactory:
    return lambda _: EffectsAlone(change)


_SITES: Final = ("publisher_family", "release")

VARIANTS: Final[Mapping[str, MethodFactory]] = {
    HYBRID: METHODS[HYBRID],
    "without trees": _effects(lambda scales: scales),
    "... and scales not chosen but round": _effects(lambda _: EffectScales()),
    "... and without stacks": _effects(without_levels("stack")),
    "... and without accelerator families": _effects(without_levels("accelerator_family")),
    "... and without wider publishers": _effects(lambda scales: replace(scales, largest_width=1.0)),
    "... and without shapes of experts": _effects(without_levels("expert_shape")),
    "... and without publishers and releases": _effects(without_levels(*_SITES)),
    "... and without any site effect": _effects(without_levels("stack", "accelerator_family", "expert_shape", *_SITES)),
    "... and one factor per site, not coefficients": _effects(_one_factor_per_site),
    "... and all knobs alike between publishers": _effects(lambda scales: replace(scales, smooth_factors={})),
    "... and without smooth terms": _effects(lambda scales: replace(scales, smooth=0.0, site_smooth=0.0)),
    "textbook coefficients": METHODS["analytic, textbook"],
}
"""The whole predictor first; each "..." takes one more piece away from the one without trees."""


def measure_pieces(config: Mapping[str, Any], folder: Path) -> str:
    """Evaluate the variants under the protocols of the config.

    Parameters
    ----------
    config : mapping
        Fields of `surrogate.experiments.accuracy.AccuracyConfig`.
    folder : Path
        The experiment's folder; its name is that of the MLflow experiment.

    Raises
    ------
    InputError
        If a setting is unknown, missing or wrong.
    """
    settings = checked_config(config)
    runs = load_runs(folder / settings.runs)
    evaluation = evaluate_sources(runs, settings, VARIANTS)
    if settings.track:
        track_methods(evaluation, runs, experiment=folder.resolve().name)
    head = f"{len(runs):,} runs, sha256 {table_digest(runs)[:12]}, seed {settings.seed}."
    return f"{head}\n\n{pieces_markdown(evaluation)}"


def pieces_markdown(evaluation: Evaluation) -> str:
    """Return one table per protocol with the figures of each variant, and how the whole compares with it."""
    verdicts = evaluation.comparisons[evaluation.comparisons["figure"] == "source_mean_abs_log_error"]
    by_variant = verdicts.set_index(["protocol", "variant", "baseline"])["verdict"].to_dict()
    header = (
        "predictor",
        "MAPE",
        "median",
        "MAPE by source",
        "mean abs log",
        "bias of log",
        "top-1 regret",
        "whole is",
    )
    parts = []
    for key, table in evaluation.to_frame().groupby(["protocol", "variant"], sort=False):
        rows = [
            (
                row["method"],
                percent(row["mape"]),
                percent(row["median_ape"]),
                f"{percent(row['source_mape'])} ± {percent(row['source_mape_se'])}",
                decimal(row["source_mean_abs_log_error"]),
                decimal(row["source_mean_log_error"], sign="+"),
                percent(row["regret"]),
                by_variant.get((*key, row["method"]), ""),
            )
            for row in table.to_dict(orient="records")
        ]
        parts += [f"{question(table.iloc[0])}:", markdown_table(header, rows)]
    return "\n\n".join(parts)
