"""A run while it is being summarised."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from surrogate.ingest.facts import size_of_step
from surrogate.ingest.report import Scalar
from surrogate.ingest.run_data import RunLogData
from surrogate.ingest.series import SizeOfStep, Source
from surrogate.ingest.steady import BoolArray, FloatArray, SteadyState


@dataclass(slots=True)
class RunDraft:
    """What is known of one run so far.

    Attributes
    ----------
    run : RunLogData
        What was read.
    facts : dict
        Runs-table columns of the configuration.
    notes : list of str
        Remarks, each once.
    reasons : dict of str to str
        Column to why it cannot be derived.
    source : Source or None
        Where the step times come from; None when there are none.
    times : ndarray, shape (n_records,)
        Seconds per step.
    steady : SteadyState or None
        Of `times`.
    """

    run: RunLogData
    facts: dict[str, Scalar]
    notes: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    source: Source | None = None
    times: FloatArray = field(default_factory=lambda: np.empty(0))
    steady: SteadyState | None = None

    def note(self, text: str) -> None:
        """Add a remark once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def size(self) -> SizeOfStep:
        """Samples and tokens of one step."""
        return size_of_step(self.facts, self.run.settings)

    @property
    def used(self) -> BoolArray:
        """Records that count."""
        return self.steady.used if self.steady is not None else np.ones(len(self.run.records), dtype=bool)

    @property
    def step_time_s(self) -> float:
        """Steady seconds per step; NaN when unknown."""
        return self.steady.median if self.steady is not None else float("nan")
