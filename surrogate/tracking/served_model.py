"""The model as code: what `mlflow.pyfunc.load_model` and `mlflow models serve` run. No pickle is involved.

MLflow executes this file, so it stands alone: it imports the installed package and reads the logged model directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlflow
import pandas as pd

from surrogate import api
from surrogate.api.table_prediction import predict_pieces


class ServedPredictor(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Predicts rows of the runs table; the answer has the columns of `surrogate predict --runs`."""

    def load_context(self, context: Any) -> None:
        """Load the model directory."""
        self.predictor = api.load_predictor(context.artifacts["model_dir"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return one prediction per row; a row that cannot be predicted has an `error`."""
        del context
        given = dict(params or {})
        predictor = api.choose_site(self.predictor, given["site"]) if given.get("site") else self.predictor
        rows = model_input.reset_index(drop=True)
        (answer,) = predict_pieces(iter([rows]), predictor, coverage=given.get("coverage", 0.9))
        return answer.astype(object).where(answer.notna(), None)  # NaN is no JSON


mlflow.models.set_model(ServedPredictor())
