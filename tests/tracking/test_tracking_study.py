"""A search in a real MLflow store: the study with its pictures and history, the best candidates beneath it."""

from __future__ import annotations

from pathlib import Path

import optuna
import pandas as pd
import pytest
from mlflow import MlflowClient
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import create_trial

from surrogate.search.search import SearchResult
from surrogate.tracking import TrackingError, log_study

BEST = pd.DataFrame(
    {
        "tp": [4, 2],
        "recompute": ["none", "none"],
        "recompute_layers": pd.array([pd.NA, pd.NA], dtype="Int64"),
        "step_time_s": [4.0, 4.5],
        "step_time_lower_s": [3.5, 4.0],
        "step_time_upper_s": [4.4, 5.0],
        "tokens_per_s_per_gpu": [4096.0, 3640.9],
        "peak_memory_bytes": [6e10, 5e10],
        "oom_probability": [0.02, 0.01],
        "in_domain": [True, False],
        "out_of_domain_reasons": [[], ["no measured run on H100-80GB"]],
        "bottleneck": ["data parallel traffic 12%", "pipeline bubble 9%"],
        "why": ["0.5 s less pipeline bubble", None],
        "probability_faster": [0.8, None],
    }
)
OPEN = {"tp": IntDistribution(1, 16), "schedule": CategoricalDistribution(["1f1b", "gpipe"])}


def build_study(*directions: str) -> optuna.Study:
    """Trials whose value grows with tp; the last ones do not fit."""
    study = optuna.create_study(study_name="plan.yaml", directions=list(directions))
    study.set_metric_names(["tokens_per_s_per_gpu", "memory_headroom_fraction"][: len(directions)])
    for tp in range(1, 17):
        values = [100.0 * tp, 1.0 - tp / 14.0][: len(directions)]
        study.add_trial(
            create_trial(
                params={"tp": tp, "schedule": "1f1b" if tp % 2 else "gpipe"},
                distributions=OPEN,
                values=values,
                constraints={"memory": 0.1 if tp > 12 else -0.05},
            )
        )
    return study


def build_result(study: optuna.Study, best: pd.DataFrame = BEST) -> SearchResult:
    return SearchResult(
        space=None,  # type: ignore[arg-type]
        best=best,
        near_misses=pd.DataFrame(),
        plans=pd.DataFrame(),
        comparisons=(),
        shortage=None,
        evaluated=160,
        exhaustive=False,
        enumerated=False,
        study=study,
    )


@pytest.fixture
def client(local_store: Path) -> MlflowClient:
    uri = f"sqlite:///{local_store}/mlruns/mlflow.db"
    return MlflowClient(uri, uri)


pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def test_the_study_holds_settings_history_pictures_and_the_best(client: MlflowClient):
    logged = log_study(build_result(build_study("maximize")), settings={"trials": 16, "plan.num_gpus": 64})
    run = client.get_run(logged.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "plan.yaml, tokens_per_s_per_gpu"
    assert run.data.params == {"trials": "16", "plan.num_gpus": "64", "exhaustive": "False", "interrupted": "False"}
    assert run.data.metrics["step_time_s"] == 4.0
    assert run.data.metrics["evaluated"] == 160.0
    note = run.data.tags["mlflow.note.content"]
    assert note.startswith("**4 s** a step with tp=4 recompute=none. 160 layouts were tried by Optuna.")
    assert "1 beats 2 with probability 80%: 0.5 s less pipeline bubble." in note
    assert "|  | tp | step, s | 90 % |" in note
    history = client.get_metric_history(logged.run_id, "best_tokens_per_s_per_gpu")
    assert [(point.step, point.value) for point in history][-2:] == [(11, 1200.0), (15, 1200.0)]
    assert {file.path for file in client.list_artifacts(logged.run_id, "figures")} == {
        "figures/history.html",
        "figures/importance.html",
    }
    page = Path(client.download_artifacts(logged.run_id, "figures/history.html")).read_text(encoding="utf-8")
    assert "tokens_per_s_per_gpu by trial" in page
    assert pd.read_csv(client.download_artifacts(logged.run_id, "best.csv"))["tp"].tolist() == [4, 2]


def test_the_best_are_runs_beneath_the_study(client: MlflowClient):
    logged = log_study(build_result(build_study("maximize")))
    experiment = client.get_experiment_by_name("search")
    assert experiment is not None
    children = client.search_runs(
        [experiment.experiment_id], f"tags.mlflow.parentRunId = '{logged.run_id}'", order_by=["metrics.rank ASC"]
    )
    assert [child.info.run_name for child in children] == ["1. tp=4", "2. tp=2"]
    first, second = children
    assert first.data.params == {
        "tp": "4", "recompute": "none", "bottleneck": "data parallel traffic 12%", "why": "0.5 s less pipeline bubble"
    }  # fmt: skip
    assert first.data.metrics["tokens_per_s_per_gpu"] == 4096.0
    assert first.data.metrics["probability_faster"] == 0.8
    assert "probability_faster" not in second.data.metrics
    assert {child.info.status for child in children} == {"FINISHED"}


def test_a_front_has_a_picture_of_its_own(client: MlflowClient):
    logged = log_study(build_result(build_study("maximize", "maximize")))
    assert {Path(file.path).name for file in client.list_artifacts(logged.run_id, "figures")} == {
        "history_tokens_per_s_per_gpu.html",
        "history_memory_headroom_fraction.html",
        "importance.html",
        "pareto.html",
    }


def test_nothing_that_fits_is_logged_too(client: MlflowClient):
    study = optuna.create_study(study_name="empty", direction="maximize")
    logged = log_study(build_result(study, best=pd.DataFrame()))
    note = client.get_run(logged.run_id).data.tags["mlflow.note.content"]
    assert note == "None fits in memory. 160 layouts were tried by Optuna."


def test_a_store_that_cannot_be_reached_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError, match="--tracking-uri"):
        log_study(build_result(build_study("maximize")), tracking_uri=f"sqlite:///{tmp_path}/file/mlflow.db")
