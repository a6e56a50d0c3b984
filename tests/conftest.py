"""What holds for every test: one thread, examples that repeat, and nothing from the caller's own settings."""

from __future__ import annotations

import os

from hypothesis import settings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is imported: the workers of pytest-xdist share the cores
for variable in (
    "SURROGATE_MODEL_DIR",
    "SURROGATE_SITES_DIR",
    "SURROGATE_TRACEBACK",
    "MLFLOW_TRACKING_URI",
    "MLFLOW_EXPERIMENT_NAME",
):
    os.environ.pop(variable, None)
os.environ["MPLBACKEND"] = "agg"

settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
