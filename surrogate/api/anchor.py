"""Predictions relative to one measured run: what two runs share cancels in their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from surrogate.api.predictor import Predictor, Site
from surrogate.api.site_files import named_runs
from surrogate.api.sites import shared_site
from surrogate.derive import load_runs
from surrogate.errors import InputError, UnknownNameError

_TARGET: Final = "measured_step_time_s"
_SEPARATOR: Final = "#"
_TABLE_SUFFIXES: Final = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchoredRatio:
    """A plan's step time over that of the anchor."""

    run_id: str
    measured_step_time_s: float
    ratio: float
    ratio_lower: float
    ratio_upper: float

    def to_dict(self) -> dict[str, object]:
        """Return the ratio in plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """A measured run, and the predictor that knows it."""

    run_id: str
    measured_step_time_s: float
    predictor: Predictor
    """Predicts at the anchor's site."""

    def ratios(self, predicted: pd.DataFrame) -> list[AnchoredRatio]:
        """Return predictions of `predictor` over the anchor's measured time, with the interval of the ratio."""
        names = ("step_time_s", "step_time_lower_s", "step_time_upper_s")
        table = predicted[list(names)].to_numpy(dtype=np.float64) / self.measured_step_time_s
        return [
            AnchoredRatio(
                run_id=self.run_id,
                measured_step_time_s=self.measured_step_time_s,
                ratio=float(ratio),
                ratio_lower=float(lower),
                ratio_upper=float(upper),
            )
            for ratio, lower, upper in table
        ]


def load_anchor(text: str, predictor: Predictor) -> Anchor:
    """Return the anchor that ``--anchor`` names.

    Parameters
    ----------
    text : str
        A runs table with one measured run, ``FILE#run_id``, or the run_id of a run the predictor was trained on.
    predictor : Predictor
        Without or with a site; the anchor's row then belongs to it.

    Raises
    ------
    FileFormatError, TableError
        If the table cannot be used.
    InputError
        If it does not hold exactly one such run.
    """
    path, _, run_id = text.partition(_SEPARATOR)
    if path.endswith(_TABLE_SUFFIXES):
        return _from_table(load_runs(path), run_id, Path(path), predictor)
    return _from_training(text, predictor)


def _from_table(runs: pd.DataFrame, run_id: str, path: Path, predictor: Predictor) -> Anchor:
    timed = runs[runs[_TARGET].notna()]
    chosen = timed[timed["run_id"] == run_id] if run_id else timed
    if len(chosen) != 1:
        got = f"{len(chosen)} of {len(runs)} rows"
        raise InputError(
            "--anchor", "must name one measured run", got, f"give {path}#RUN_ID with a run_id of the table"
        )
    row = chosen.iloc[0]
    named = Site(name=str(row["source"]), source=_text(row["source"]), family=_text(row["publisher_family"]))
    site = shared_site(predictor.site or named)
    runs_of_site = named_runs(chosen, str(site.source), str(site.family or site.source))
    return Anchor(
        run_id=str(row["run_id"]),
        measured_step_time_s=float(row[_TARGET]),
        predictor=predictor.with_runs(runs_of_site).at_site(site),
    )


def _from_training(run_id: str, predictor: Predictor) -> Anchor:
    known = predictor.measured_runs()
    found = known[known["run_id"] == run_id]
    if found.empty:
        near: Sequence[str] = get_close_matches(run_id, known["run_id"].tolist(), n=3)
        way_out = "give a run_id of the training runs, or FILE.csv#RUN_ID for a run of your own"
        raise UnknownNameError("--anchor", run_id, near, way_out)
    row = found.iloc[0]
    source = str(row["source"])
    families = predictor.manifest.sites.get(source, ())
    site = Site(name=source, source=source, family=families[0] if families else None)
    return Anchor(
        run_id=run_id,
        measured_step_time_s=float(row["measured_step_time_s"]),
        predictor=predictor.at_site(predictor.site or site),
    )


def _text(value: str | float | None) -> str | None:
    return None if pd.isna(value) else str(value)
