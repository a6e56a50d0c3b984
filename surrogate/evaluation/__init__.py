"""How accurate a predictor is out of sample: metrics, splits, baselines, protocols."""

from surrogate.evaluation.bootstrap import Comparison, compare_predictions
from surrogate.evaluation.evaluation import Evaluation, evaluate, protocol_folds, summarise
from surrogate.evaluation.methods import HYBRID, METHODS
from surrogate.evaluation.protocols import PROTOCOLS, Protocol
from surrogate.evaluation.ranking import group_rankings, ranking_scores
from surrogate.evaluation.scores import Scores, score

__all__ = [
    "HYBRID",
    "METHODS",
    "PROTOCOLS",
    "Comparison",
    "Evaluation",
    "Protocol",
    "Scores",
    "compare_predictions",
    "evaluate",
    "group_rankings",
    "protocol_folds",
    "ranking_scores",
    "score",
    "summarise",
]
