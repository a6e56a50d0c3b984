"""Search: the best layouts that a plan leaves open, by enumeration with proof or by an Optuna study."""

from surrogate.search.emit import FRAMEWORKS, launch_arguments
from surrogate.search.objectives import Goal, Objective
from surrogate.search.sampler import Algorithm
from surrogate.search.search import SearchOptions, SearchResult, search
from surrogate.search.space import Conditions, SearchSpace, SpaceRequest, build_space
from surrogate.search.study import LayoutStudy, StudyOptions

__all__ = [
    "FRAMEWORKS",
    "Algorithm",
    "Conditions",
    "Goal",
    "LayoutStudy",
    "Objective",
    "SearchOptions",
    "SearchResult",
    "SearchSpace",
    "SpaceRequest",
    "StudyOptions",
    "build_space",
    "launch_arguments",
    "search",
]
