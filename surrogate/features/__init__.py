"""Runs table -> what models see: workload, software, site levels, knobs and ratios."""

from surrogate.features.knobs import KNOBS, knob_matrix
from surrogate.features.levels import SiteLevels, site_levels
from surrogate.features.workload import PreparedRuns, prepare_runs

__all__ = ["KNOBS", "PreparedRuns", "SiteLevels", "knob_matrix", "prepare_runs", "site_levels"]
