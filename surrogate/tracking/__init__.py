"""Everything that MLflow keeps: trainings, evaluations, models, and the ledger of predictions."""

from surrogate.tracking.ledger import TrackRecord, match_runs, record_predictions, track_record
from surrogate.tracking.logged_memory import log_memory_evaluation
from surrogate.tracking.logged_run import LoggedRun, log_evaluation, log_training
from surrogate.tracking.logged_study import log_study
from surrogate.tracking.store import Store, TrackingError, locate_store, opened

__all__ = [
    "LoggedRun",
    "Store",
    "TrackRecord",
    "TrackingError",
    "locate_store",
    "log_evaluation",
    "log_memory_evaluation",
    "log_study",
    "log_training",
    "match_runs",
    "opened",
    "record_predictions",
    "track_record",
]
