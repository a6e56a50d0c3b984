"""The public functions: what a verb or a Python user calls."""

from surrogate.api.anchor import Anchor, AnchoredRatio, load_anchor
from surrogate.api.comparison import Comparison, compare
from surrogate.api.explanation import Explanation, explain
from surrogate.api.judgement import Judgement, judge
from surrogate.api.plan_files import read_plan, read_plans
from surrogate.api.prediction import Prediction, collect_predictions, predict
from surrogate.api.predictor import Predictor, Site, load_predictor
from surrogate.api.sites import SitePack, choose_site, load_site, save_site
from surrogate.api.table_prediction import TablePredictions, predict_table
from surrogate.api.training import TrainResult, train

__all__ = [
    "Anchor",
    "AnchoredRatio",
    "Comparison",
    "Explanation",
    "Judgement",
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
    "judge",
    "load_anchor",
    "load_predictor",
    "load_site",
    "predict",
    "predict_table",
    "read_plan",
    "read_plans",
    "save_site",
    "train",
]
