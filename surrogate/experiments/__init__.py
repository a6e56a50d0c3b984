"""Questions asked of the predictor, one folder each: a config, and a README with the measured answer."""

from surrogate.experiments.runner import ExperimentAnswer, run_experiment

__all__ = ["ExperimentAnswer", "run_experiment"]
