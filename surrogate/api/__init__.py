"""The public functions: what a verb or a Python user calls. A name's module is imported when the name is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from surrogate.api.anchor import Anchor, AnchoredRatio, load_anchor
    from surrogate.api.assessment import metric_key, named_figures
    from surrogate.api.comparison import Comparison, compare
    from surrogate.api.explanation import Explanation, explain
    from surrogate.api.judgement import Judgement, judge
    from surrogate.api.log_judgement import JudgedRun, judge_log, judge_plan
    from surrogate.api.next_runs import NextRuns, propose_runs
    from surrogate.api.plan_files import read_plan, read_plans
    from surrogate.api.prediction import Prediction, collect_predictions, predict
    from surrogate.api.predictor import Predictor, Site, load_predictor
    from surrogate.api.site_assessment import make_site
    from surrogate.api.sites import SitePack, choose_site, joined_runs, load_site, save_site
    from surrogate.api.table_prediction import TablePredictions, predict_table
    from surrogate.api.training import TrainResult, load_run_files, train

_NAMES_BY_MODULE: Final[dict[str, tuple[str, ...]]] = {
    "anchor": ("Anchor", "AnchoredRatio", "load_anchor"),
    "assessment": ("metric_key", "named_figures"),
    "comparison": ("Comparison", "compare"),
    "explanation": ("Explanation", "explain"),
    "judgement": ("Judgement", "judge"),
    "log_judgement": ("JudgedRun", "judge_log", "judge_plan"),
    "next_runs": ("NextRuns", "propose_runs"),
    "plan_files": ("read_plan", "read_plans"),
    "prediction": ("Prediction", "collect_predictions", "predict"),
    "predictor": ("Predictor", "Site", "load_predictor"),
    "site_assessment": ("make_site",),
    "sites": ("SitePack", "choose_site", "joined_runs", "load_site", "save_site"),
    "table_prediction": ("TablePredictions", "predict_table"),
    "training": ("TrainResult", "load_run_files", "train"),
}
_MODULE_BY_NAME: Final = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = [
    "Anchor",
    "AnchoredRatio",
    "Comparison",
    "Explanation",
    "JudgedRun",
    "Judgement",
    "NextRuns",
    "Prediction",
    "Predictor",
    "Site",
    "SitePack",
    "TablePredictions",
    "TrainResult",
    "choose_site",
    "collect_predictions",
    "compare",
    "explain",
    "joined_runs",
    "judge",
    "judge_log",
    "judge_plan",
    "load_anchor",
    "load_predictor",
    "load_run_files",
    "load_site",
    "make_site",
    "metric_key",
    "named_figures",
    "predict",
    "predict_table",
    "propose_runs",
    "read_plan",
    "read_plans",
    "save_site",
    "train",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562), so that a verb pays for what it needs."""
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
