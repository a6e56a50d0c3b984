"""The trained predictor as an MLflow model: signature, input example, registration and the champion's alias."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd

from surrogate import __version__
from surrogate.api.assessment import SELECTION_FIGURE
from surrogate.schema import COLUMNS, REQUIRED_COLUMNS
from surrogate.schema.column import Column, Kind
from surrogate.schema.columns import MEASURED, PROVENANCE

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.models import ModelSignature
    from mlflow.models.model import ModelInfo

    from surrogate.api import TrainResult

REGISTERED_NAME: Final = "surrogate"
CHAMPION: Final = "champion"
DATA_TAG: Final = "data_digest"
FIGURE_TAG: Final = "selection_figure"
_MODEL_CODE: Final = Path(__file__).with_name("served_model.py")
_NOT_INPUTS: Final = frozenset(column.name for column in (*MEASURED, *PROVENANCE))
_PREDICTED_TEXTS: Final = ("run_id", "breakdown", "out_of_domain_reasons", "nearest_runs", "model", "imputed", "error")
_PREDICTED_FLAGS: Final = ("feasible", "in_domain")


class RegisteredModel(NamedTuple):
    """A version in the registry."""

    name: str
    version: str
    is_champion: bool


def log_model(result: TrainResult) -> ModelInfo:
    """Log a trained predictor under the active run."""
    import mlflow

    return mlflow.pyfunc.log_model(
        name="predictor",
        python_model=str(_MODEL_CODE),
        artifacts={"model_dir": str(result.predictor.directory.resolve())},
        signature=model_signature(),
        input_example=input_example(result.runs),
        pip_requirements=[f"surrogate=={__version__}"],
        metadata={"digest": result.manifest.digest},
    )


def register_model(client: MlflowClient, logged: ModelInfo, run_id: str, result: TrainResult) -> RegisteredModel:
    """Register a logged model; it becomes the champion when it beats the present one on the same data.

    The first version, and the first on other data than the champion's, become champion too: errors on different runs
    do not compare, and the newest data is what is asked for. A training without figures never replaces a champion.
    """
    figure = result.manifest.metrics.get(SELECTION_FIGURE)
    digest = str(result.manifest.data["digest"])
    before = _champion_tags(client)
    tags = {DATA_TAG: digest, "model_digest": result.manifest.digest}
    if figure is not None:
        tags[FIGURE_TAG] = repr(figure)
    if not client.search_registered_models(f"name = '{REGISTERED_NAME}'"):
        client.create_registered_model(REGISTERED_NAME, description="Step time and memory of training plans.")
    version = client.create_model_version(
        REGISTERED_NAME, logged.model_uri, run_id, tags=tags, model_id=logged.model_id
    ).version
    is_champion = beats(figure, digest, before)
    if is_champion:
        client.set_registered_model_alias(REGISTERED_NAME, CHAMPION, version)
    return RegisteredModel(REGISTERED_NAME, str(version), is_champion)


def beats(figure: float | None, digest: str, champion: dict[str, str] | None) -> bool:
    """Return whether a training replaces the champion, whose tags are given (None where there is none).

    Examples
    --------
    >>> beats(0.05, "a", None), beats(0.05, "a", {"data_digest": "a", "selection_figure": "0.06"})
    (True, True)
    >>> beats(0.07, "a", {"data_digest": "a", "selection_figure": "0.06"}), beats(None, "b", {"data_digest": "a"})
    (False, False)
    """
    if champion is None:
        return True
    if figure is None:
        return False
    if champion.get(DATA_TAG) != digest or FIGURE_TAG not in champion:
        return True
    return figure < float(champion[FIGURE_TAG])


def _champion_tags(client: MlflowClient) -> dict[str, str] | None:
    import mlflow

    try:
        return dict(client.get_model_version_by_alias(REGISTERED_NAME, CHAMPION).tags)
    except mlflow.MlflowException:
        return None


def model_signature() -> ModelSignature:
    """Return the signature: required columns typed, optional ones of any kind, and the columns of the answer."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import AnyType

    from surrogate.api.table_prediction import PREDICTION_COLUMNS

    def input_column(column: Column) -> list[Any]:
        if column.required:
            return [ColSpec(DataType.long if column.kind is Kind.INTEGER else DataType.string, column.name)]
        names = [column.name, *([column.published.name] if column.published else [])]
        return [ColSpec(AnyType(), name, required=False) for name in names]

    def output_column(name: str) -> Any:
        if name in _PREDICTED_TEXTS:
            return ColSpec(DataType.string, name)
        return ColSpec(DataType.boolean if name in _PREDICTED_FLAGS else DataType.double, name)

    inputs = [
        spec
        for column in COLUMNS
        if not column.derived and column.name not in _NOT_INPUTS
        for spec in input_column(column)
    ]
    params = [ParamSpec("coverage", DataType.double, 0.9), ParamSpec("site", DataType.string, "")]
    return ModelSignature(
        inputs=Schema(inputs),
        outputs=Schema([output_column(name) for name in PREDICTION_COLUMNS]),
        params=ParamSchema(params),
    )


def input_example(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the required columns of the first two runs: the smallest question one can ask."""
    example = runs[list(REQUIRED_COLUMNS)].head(2).reset_index(drop=True)
    integers = [name for name in REQUIRED_COLUMNS if name != "accelerator"]
    return example.astype(dict.fromkeys(integers, "int64") | {"accelerator": object})
