"""`predict --runs`: a table in, predictions out, row by row in the input's order; bad rows keep their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import orjson
import pandas as pd
from numpy.typing import NDArray

from surrogate.api.prediction import Prediction, collect_predictions
from surrogate.api.predictor import Predictor
from surrogate.api.refused_rows import refused_rows
from surrogate.api.table_files import CHUNK_ROWS, TableWriter, check_suffix, iterate_table
from surrogate.errors import RowProblem, SurrogateError
from surrogate.schema import COLUMNS, split_bad_rows
from surrogate.schema.columns import MEASURED

_NESTED: Final = frozenset({"breakdown", "out_of_domain_reasons", "nearest_runs", "imputed"})
_FLAGS: Final = frozenset({"feasible", "in_domain"})
_TEXTS: Final = _NESTED | {"run_id", "model"}
PREDICTION_COLUMNS: Final = (*(field.name for field in fields(Prediction)), "error")

_NOT_READ: Final = [
    name
    for column in COLUMNS
    if column in MEASURED or column.derived
    for name in (column.name, column.published.name if column.published else column.name)
]
"""Measured columns, and those that follow from them: a prediction must not see them."""

Progress = Callable[[int], None]
"""Called with the rows done so far."""


class TablePredictions(NamedTuple):
    """What became of a table."""

    rows: int
    bad_rows: int


def predict_table(
    source: Path,
    target: Path,
    predictor: Predictor,
    *,
    coverage: float = 0.9,
    progress: Progress | None = None,
) -> TablePredictions:
    """Predict every row of a CSV or parquet file and write `run_id` and the predictions only.

    Parameters
    ----------
    source, target : Path
        Tables ending in ``.csv`` or ``.parquet``; measured columns of `source` are not read.
    predictor : Predictor
        From `load_predictor`.
    coverage : float
        Probability that the intervals hold the measured step time.
    progress : callable, optional
        Called with the number of rows done after each piece.

    Returns
    -------
    TablePredictions
        Rows written, and how many of them have an `error` and no prediction.

    Raises
    ------
    FileFormatError, TableError
        If the table as a whole cannot be used; `target` is then untouched.
    """
    check_suffix("--output", target)
    done = bad = 0
    with TableWriter(target) as writer:
        for predictions in predict_pieces(iterate_table(source), predictor, coverage=coverage):
            writer.write(predictions)
            done += len(predictions)
            bad += int(predictions["error"].notna().sum())
            if progress is not None:
                progress(done)
    return TablePredictions(done, bad)


def predict_pieces(
    pieces: Iterator[pd.DataFrame], predictor: Predictor, *, coverage: float = 0.9
) -> Iterator[pd.DataFrame]:
    """Yield the predictions of each piece of a table, with the columns of `PREDICTION_COLUMNS`."""
    seen: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
    for piece in pieces:
        names = _row_names(piece).reset_index(drop=True)
        hashes = pd.util.hash_pandas_object(names, index=False).to_numpy(dtype=np.uint64)
        repeated = np.isin(hashes, seen)
        seen = np.concatenate([seen, hashes])
        asked = piece.reset_index(drop=True).drop(columns=_NOT_READ, errors="ignore")
        runs, errors = _checked(asked.assign(run_id=names))
        errors = errors.where(~repeated | errors.notna(), "`run_id` must be unique, got " + names)
        runs = runs[~repeated[runs.index]]
        frames = dict(_predict_or_explain(runs, predictor, coverage, errors))
        yield _joined(names, frames, errors)


def _checked(piece: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows that can be predicted, by position in the piece, and a message for each of the others."""
    checked = split_bad_rows(piece)
    messages: dict[int, list[str]] = {}
    for problem in checked.problems:
        messages.setdefault(problem.row - 1, []).append(_message(problem))
    texts = {row: "; ".join(parts) for row, parts in messages.items()}
    return checked.good, pd.Series(texts, index=range(len(piece)), dtype="str")


def _message(problem: RowProblem) -> str:
    return f"`{problem.column}` {problem.rule}, got {problem.value}"


def _predict_or_explain(
    runs: pd.DataFrame, predictor: Predictor, coverage: float, errors: pd.Series
) -> Iterator[tuple[int, Prediction]]:
    """Yield position and prediction of each row; a row that cannot be predicted gets its error instead.

    An error of one row stops its whole table, so tables with an error are halved until it stands alone.
    """
    if runs.empty:
        return
    try:
        refused = refused_rows(runs)
        errors[refused.index] = refused
        placeable = runs.drop(index=refused.index)
        predicted = predictor.predict_frame(placeable, coverage=coverage, with_evidence=True)
        yield from zip(placeable.index, collect_predictions(placeable, predicted, predictor), strict=True)
    except SurrogateError as error:
        if len(runs) == 1:
            errors[runs.index[0]] = str(error)
            return
        half = len(runs) // 2
        yield from _predict_or_explain(runs.iloc[:half], predictor, coverage, errors)
        yield from _predict_or_explain(runs.iloc[half:], predictor, coverage, errors)


def _joined(names: pd.Series, predictions: dict[int, Prediction], errors: pd.Series) -> pd.DataFrame:
    columns: dict[str, object] = {}
    rows = [predictions.get(position) for position in range(len(names))]
    for name in PREDICTION_COLUMNS[:-1]:
        values = [None if row is None else _cell(name, row) for row in rows]
        columns[name] = pd.Series(values, dtype=_dtype(name))
    return pd.DataFrame(columns | {"run_id": names, "error": errors})


def _cell(name: str, prediction: Prediction) -> object:
    value = getattr(prediction, name)
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode() if name in _NESTED else value


def _dtype(name: str) -> str:
    if name in _FLAGS:
        return "boolean"
    return "str" if name in _TEXTS else "float64"


def _row_names(piece: pd.DataFrame) -> pd.Series:
    """Return `run_id`, or the row's number in the whole file (from 1) where it has none."""
    numbered = pd.Series([f"row-{position + 1}" for position in piece.index], index=piece.index, dtype="str")
    return piece["run_id"].astype("str").fillna(numbered) if "run_id" in piece else numbered


__all__ = ["CHUNK_ROWS", "PREDICTION_COLUMNS", "TablePredictions", "predict_pieces", "predict_table"]
