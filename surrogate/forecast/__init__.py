"""From seconds per step to days and money: step-time predictions joined with failures and checkpoints."""

from surrogate.forecast.forecast import Forecast, IntervalChoice, PhaseForecast, Spread, forecast_run
from surrogate.forecast.from_plans import training_plans
from surrogate.forecast.inputs import RunPolicy, TrainingPlans, log_sd_of_interval
from surrogate.forecast.operation import Operation, TimeToTrain, expected_time_to_train, operate
from surrogate.forecast.policy_file import load_policy, load_rates
from surrogate.forecast.sensitivity import InputEffect
from surrogate.forecast.simulated import Departures, SimulatedPhase, simulate_phase, simulation_spec

__all__ = [
    "Departures",
    "Forecast",
    "InputEffect",
    "IntervalChoice",
    "Operation",
    "PhaseForecast",
    "RunPolicy",
    "SimulatedPhase",
    "Spread",
    "TimeToTrain",
    "TrainingPlans",
    "expected_time_to_train",
    "forecast_run",
    "load_policy",
    "load_rates",
    "log_sd_of_interval",
    "operate",
    "simulate_phase",
    "simulation_spec",
    "training_plans",
]
