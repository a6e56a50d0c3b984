"""`surrogate search` on the command line, with a search that is stubbed where it would take long."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pandas as pd
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import surrogate.tracking
from surrogate.cli.search import search
from surrogate.errors import InputError, UnknownNameError
from surrogate.search import SearchOptions, SearchResult, SpaceRequest
from surrogate.search import search as _unused  # noqa: F401 - the package must be imported before it is patched
from surrogate.search.comparison import Comparison, TermDifference
from surrogate.search.shortage import Change, Shortage

RUNNER = CliRunner()
APP = typer.Typer()
APP.command()(search)

PLAN = """
model: llama3-8b
cluster: {accelerator: H100-80GB, num_gpus: 64, gpus_per_node: 8, inter_node_gbps: 3200}
training: {framework: megatron-lm, seq_len: 8192, global_batch_size: 128, precision: bf16}
parallelism: {tp: 2}
"""

BEST = pd.DataFrame(
    {
        "pp": [1, 2],
        "micro_batch_size": [1, 1],
        "pipeline_schedule": ["1f1b", "1f1b"],
        "dp": [32, 16],
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
COMPARISON = Comparison(
    terms=(TermDifference(part="bubble_s", seconds=0.0, seconds_of_next=0.5),), probability_faster=0.8
)
SHORTAGE = Shortage(
    constraint="memory: risk 80% > 5%",
    layout={"pp": 1},
    oom_probability=0.8,
    changes=(Change(values={"num_gpus": 128}, layout={"pp": 2}, step_time_s=3.0, oom_probability=0.01),),
)


def _result(**changes: object) -> SearchResult:
    fields: dict[str, object] = {
        "space": None, "best": BEST, "near_misses": pd.DataFrame(), "plans": pd.DataFrame(),
        "comparisons": (COMPARISON,),
        "shortage": None, "evaluated": 1234, "exhaustive": True,
    }  # fmt: skip
    return SearchResult(**{**fields, **changes})  # type: ignore[arg-type]


class _Search:
    """Stands in for the search: remembers what it was asked."""

    answer = _result()
    request: SpaceRequest
    options: SearchOptions

    def __call__(
        self, request: SpaceRequest, _predictor: object, options: SearchOptions, _progress: object
    ) -> SearchResult:
        self.request, self.options = request, options
        return self.answer


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> _Search:
    api = ModuleType("surrogate.api")
    api.load_predictor = lambda _model_dir=None: object()  # type: ignore[attr-defined]
    api.choose_site = lambda predictor, _site: predictor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "surrogate.api", api)
    monkeypatch.setattr(surrogate, "api", api, raising=False)
    stub = _Search()
    monkeypatch.setattr(sys.modules["surrogate.search"], "search", stub)
    return stub


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return path


def _run(*arguments: object) -> Result:
    return RUNNER.invoke(APP, [str(argument) for argument in arguments])


def test_it_prints_the_ranking_and_the_reason(plan: Path, stub: _Search) -> None:
    result = _run(plan)
    assert result.exit_code == 0, result.output
    for words in (
        "all 1,234 layouts",
        "micro_batch_size=1",
        "4.00  3.5-4.4",
        "4,096",
        "80.0 %",
        "less pipeline bubble",
    ):
        assert words in result.output
    assert "2 is out of domain: no measured run" in result.output
    assert stub.options.top == 5 and stub.options.oom_risk == 0.05


def test_json_is_plain(plan: Path, stub: _Search) -> None:
    answer = json.loads(_run(plan, "--json").output)
    assert answer["evaluated"] == 1234 and answer["exhaustive"] is True
    assert answer["best"][0]["pp"] == 1 and answer["best"][1]["why"] is None


def test_options_reach_the_search(plan: Path, stub: _Search) -> None:
    result = _run(
        plan, "--objective", "cost", "--tokens", "1e12", "--price", "2", "--robust", "--require", "pp <= 2", "--forbid",
        "dp > 32", "--waive", "tp-in-fast-domain", "--vary", "num_gpus=32,64", "--set", "tp=", "--oom-risk", "0.1",
        "--top", "3", "--no-enumerate", "--sampler", "nsga2", "--trials", "7", "--seconds", "9",
        "--seed", "4", "--storage", "x.journal", "--study", "mine",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    options, request = stub.options, stub.request
    assert not options.is_enumerated_when_small and options.top == 3 and options.oom_risk == 0.1
    assert options.goal.is_robust and options.goal.tokens == 1e12 and options.goal.policy.price_per_gpu_hour == 2.0
    study = options.study
    assert study is not None
    assert (study.trials, study.seconds, study.seed, study.storage, study.name) == (7, 9.0, 4, "x.journal", "mine")
    assert request.vary == {"num_gpus": (32, 64)} and "tp" not in request.plan.values
    assert request.conditions.require == ("pp <= 2",) and request.conditions.forbid == ("dp > 32",)
    assert not options.is_exhaustive
    _run(plan, "--exhaustive")
    assert stub.options.is_exhaustive and stub.options.is_enumerated_when_small


def test_a_study_is_tracked_unless_told_not_to(plan: Path, stub: _Search, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[object, dict[str, object]]] = []

    def log(_result: object, *, tracking_uri: str | None, settings: dict[str, object]) -> SimpleNamespace:
        logged.append((tracking_uri, settings))
        return SimpleNamespace(experiment="search", run_id="abc")

    monkeypatch.setattr(surrogate.tracking, "log_study", log)
    stub.answer = _result(study=object(), space=SimpleNamespace(plan=SimpleNamespace(values={"tp": 2})))
    output = _run(plan, "--tracking-uri", "sqlite:///x.db").output
    assert "experiment search, run abc" in output
    ((uri, settings),) = logged
    assert uri == "sqlite:///x.db"
    assert (settings["plan.tp"], settings["objectives"], settings["trials"]) == (2, "tokens_per_s_per_gpu", 300)
    assert not stub.options.keeps_study
    assert _run(plan, "--no-track").exit_code == 0
    assert len(logged) == 1
    json.loads(_run(plan, "--track", "--json").output)
    assert len(logged) == 2 and stub.options.keeps_study


def test_the_table_is_written(plan: Path, stub: _Search, tmp_path: Path) -> None:
    assert _run(plan, "-o", tmp_path / "best.parquet").exit_code == 0
    assert pd.read_parquet(tmp_path / "best.parquet")["pp"].tolist() == [1, 2]


def test_nothing_that_fits_is_exit_1_with_a_way_out(plan: Path, stub: _Search) -> None:
    stub.answer = _result(best=pd.DataFrame(), comparisons=(), shortage=SHORTAGE)
    result = _run(plan)
    assert result.exit_code == 1
    assert "optimum" not in result.output
    assert "nothing fits" in result.output and "num_gpus = 128" in result.output
    assert _run(plan, "-o", plan.with_name("best.csv")).exit_code == 1
    assert not plan.with_name("best.csv").exists()
    stub.answer = _result(best=pd.DataFrame(), comparisons=(), shortage=SHORTAGE, exhaustive=False, enumerated=False)
    assert "nothing that was tried fits" in _run(plan).output
    assert json.loads(_run(plan, "--json").output)["shortage"]["nearest_feasible_changes"][0]["changes"] == {
        "num_gpus": 128
    }


def test_an_interrupted_search_says_so(plan: Path, stub: _Search) -> None:
    stub.answer = _result(exhaustive=False, interrupted=True)
    assert "stopped: the best so far, 1,234 layouts were considered" in _run(plan).output
    stub.answer = _result(exhaustive=False, enumerated=False)
    assert "tried by Optuna; --exhaustive considers all" in _run(plan).output


def test_a_search_that_tried_nothing_says_so(plan: Path, stub: _Search) -> None:
    stub.answer = _result(best=pd.DataFrame(), comparisons=(), exhaustive=False, enumerated=False, evaluated=0)
    result = _run(plan, "--seconds", "0")
    assert result.exit_code == 1
    assert "nothing was found: give more --trials" in result.output


def test_an_unknown_site_is_said_beside_the_answer(plan: Path, stub: _Search, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = SimpleNamespace(site=SimpleNamespace(name="nobody", is_known=False))
    monkeypatch.setattr(sys.modules["surrogate.api"], "choose_site", lambda _predictor, _site: nobody)
    assert "site nobody is not known" in _run(plan, "--site", "nobody").stderr
    assert "is not known" not in _run(plan, "--site", "nobody", "--json").stderr


def test_a_front_has_no_optimum(plan: Path, stub: _Search) -> None:
    stub.answer = _result(is_ranking=False)
    assert "all 1,234 layouts that exist were considered: the front is complete" in _run(plan).output


def test_options_that_exclude_each_other_are_wrong_usage(plan: Path, stub: _Search) -> None:
    result = _run(plan, "--exhaustive", "--no-enumerate")
    assert result.exit_code == 2
    assert "exclude each other" in result.output


def test_launch_arguments_are_printed(plan: Path, stub: _Search) -> None:
    row = {"num_layers": 4, "hidden_size": 64, "num_heads": 4, "seq_len": 128, "tp": 2, "pp": 1, "global_batch_size": 8}
    stub.answer = _result(plans=pd.DataFrame([row, row]))
    result = _run(plan, "--emit", "megatron")
    assert "--tensor-model-parallel-size 2 \\" in result.output
    assert "--num-layers 4" in json.loads(_run(plan, "--emit", "megatron", "--json").output)["launch_arguments"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sampler", "annealing"), "--sampler"),
        (("--objective", "speed"), "--objective"),
        (("--objective", "cost", "--tokens", "1e9"), "--price"),
        (("--vary", "hidden_size=3"), "--vary"),
        (("--emit", "nemo"), "--emit"),
        (("-o", "best.txt"), "--output"),
        (("-o", "nowhere/best.csv"), "--output"),
    ],
)
def test_mistakes_are_domain_errors(plan: Path, stub: _Search, arguments: tuple[str, ...], words: str) -> None:
    result = _run(plan, *arguments)
    assert isinstance(result.exception, InputError | UnknownNameError)
    assert words in str(result.exception)
