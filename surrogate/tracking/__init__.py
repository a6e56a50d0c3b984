"""Everything that MLflow keeps: trainings, evaluations, models, and the ledger of predictions."""

from surrogate.tracking.logged_run import LoggedRun, log_evaluation, log_training
from surrogate.tracking.store import Store, TrackingError, locate_store, opened

__all__ = ["LoggedRun", "Store", "TrackingError", "locate_store", "log_evaluation", "log_training", "opened"]
