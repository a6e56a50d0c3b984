"""The protocols of an evaluation: which rows a predictor learns from, and which it must predict then.

Every split keeps a `split_group` (configurations equal up to kernel and framework) whole: a training row that shares
one with a test row is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import numpy as np
import pandas as pd

from surrogate.errors import UnknownNameError
from surrogate.evaluation.folds import Fold, Query, grouped_folds, holdout_fold
from surrogate.evaluation.own_runs import anchored_folds, family_folds, few_shot_folds
from surrogate.evaluation.slices import accelerator_families
from surrogate.evaluation.vtrain import vtrain_folds
from surrogate.features.columns import numbers

RANDOM_FOLDS: Final = 5
KEY_FOLDS: Final = 10
"""Layouts and architectures are left out in tenths: one at a time would take 574 fits."""
SMALL_SCALE_GPUS: Final = 256.0
MIN_EARLIER_ROWS: Final = 100
"""Releases with fewer earlier rows than this are not forecast."""
LAYOUT_KEY: Final = ["model_name", "tp", "pp", "cp", "ep", "zero_stage"]
ARCHITECTURE_KEY: Final = [
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_heads",
    "num_kv_heads",
    "num_experts",
]

FoldBuilder = Callable[[pd.DataFrame, int], list[Fold]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """A question asked of the predictor."""

    name: str
    question: str
    build: FoldBuilder
    """Gives the folds of a table of timed runs for a seed; none where the table cannot answer the question."""


def _random(runs: pd.DataFrame, random_state: int) -> list[Fold]:
    return _key_folds("random", runs, runs["split_group"], (RANDOM_FOLDS, random_state))


def _new_layout(runs: pd.DataFrame, random_state: int) -> list[Fold]:
    return _key_folds("new-layout", runs, _key(runs, LAYOUT_KEY), (KEY_FOLDS, random_state))


def _new_model(runs: pd.DataFrame, random_state: int) -> list[Fold]:
    return _key_folds("new-model", runs, _key(runs, ARCHITECTURE_KEY), (KEY_FOLDS, random_state))


def _key(runs: pd.DataFrame, columns: list[str]) -> pd.Series:
    present = [column for column in columns if column in runs.columns]
    return runs.groupby(present, dropna=False, sort=False).ngroup()


def _key_folds(protocol: str, runs: pd.DataFrame, groups: pd.Series, deal: tuple[int, int]) -> list[Fold]:
    folds, random_state = deal
    everything = np.ones(len(runs), dtype=np.bool_)
    return [
        holdout_fold(
            runs,
            test,
            Query(protocol=protocol, test=np.flatnonzero(test)),
            left_out=f"part {number} of {folds}",
            among=everything,
        )
        for number, test in enumerate(grouped_folds(runs, groups, folds=folds, random_state=random_state), start=1)
    ]


def _scale_out(runs: pd.DataFrame, random_state: int) -> list[Fold]:  # noqa: ARG001
    small = numbers(runs, "num_gpus") <= SMALL_SCALE_GPUS
    known = runs["source"].isin(runs["source"][small]).to_numpy()
    return _one_fold("scale-out", runs, ~small & known, small, "above 256 accelerators")


def _one_fold(
    protocol: str, runs: pd.DataFrame, test: np.typing.NDArray[np.bool_], among: np.typing.NDArray[np.bool_], name: str
) -> list[Fold]:
    fold = holdout_fold(runs, test, Query(protocol=protocol, test=np.flatnonzero(test)), left_out=name, among=among)
    return [fold] if test.any() and len(fold.train) else []


def _new_accelerator(runs: pd.DataFrame, random_state: int) -> list[Fold]:  # noqa: ARG001
    family = accelerator_families(runs)
    folds: list[Fold] = []
    for name in pd.unique(family):
        folds += _one_fold("new-accelerator", runs, family == name, family != name, str(name))
    return folds


def _new_site(runs: pd.DataFrame, random_state: int) -> list[Fold]:  # noqa: ARG001
    return family_folds(runs, lambda test: (Query(protocol="new-site", test=test),))


def _new_release(runs: pd.DataFrame, random_state: int) -> list[Fold]:  # noqa: ARG001
    """Each fold leaves out one release of every family that has several, so sisters are always known."""
    families = runs["publisher_family"]
    number = runs.groupby(families)["source"].transform(lambda source: pd.factorize(source)[0]).to_numpy()
    several = (runs["source"].groupby(families).transform("nunique") > 1).to_numpy()
    everything = np.ones(len(runs), dtype=np.bool_)
    folds: list[Fold] = []
    for release in range(int(number.max()) + 1):
        test = several & (number == release)
        folds += _one_fold("new-release", runs, test, everything, f"release {release + 1} of each publisher")
    return folds


def _time_forward(runs: pd.DataFrame, random_state: int) -> list[Fold]:  # noqa: ARG001
    """Releases of the same first date share a fit."""
    if "date" not in runs.columns:
        return []
    date = runs["date"].fillna("")
    released = runs.assign(date=date).groupby("source")["date"].transform("min")
    folds: list[Fold] = []
    for month in sorted(set(released) - {""}):
        earlier = ((date < month) & (date != "")).to_numpy()
        if earlier.sum() >= MIN_EARLIER_ROWS:
            folds += _one_fold("time-forward", runs, (released == month).to_numpy(), earlier, f"released {month}")
    return folds


PROTOCOLS: Final = {
    protocol.name: protocol
    for protocol in (
        Protocol(name="random", question="configurations like the measured ones", build=_random),
        Protocol(name="new-layout", question="a layout that was not measured", build=_new_layout),
        Protocol(name="new-model", question="an architecture that was not measured", build=_new_model),
        Protocol(name="scale-out", question="above 256 accelerators from 256 and fewer", build=_scale_out),
        Protocol(name="new-accelerator", question="an accelerator family nobody measured", build=_new_accelerator),
        Protocol(name="new-site", question="a publisher nobody knows, without own runs", build=_new_site),
        Protocol(name="new-release", question="the next release of a known publisher", build=_new_release),
        Protocol(name="time-forward", question="each release from earlier data only", build=_time_forward),
        Protocol(name="few-shot", question="a new site after three to ten own runs", build=few_shot_folds),
        Protocol(name="anchored", question="a new site from the nearest own run", build=anchored_folds),
        Protocol(name="vtrain", question="the public vTrain measurements", build=vtrain_folds),
    )
}


def protocol_named(name: str) -> Protocol:
    """Return a protocol.

    Raises
    ------
    UnknownNameError
        If there is none of that name.
    """
    if name not in PROTOCOLS:
        raise UnknownNameError(
            "protocol", name, get_close_matches(name, PROTOCOLS), f"choose from {', '.join(PROTOCOLS)}"
        )
    return PROTOCOLS[name]
