"""Steady-state rates of a run: printed, or from the step time and the size of a step."""

from __future__ import annotations

from typing import Final

import numpy as np

from surrogate.ingest.draft import RunDraft
from surrogate.ingest.facts import number
from surrogate.ingest.numbers import NAN, is_known
from surrogate.ingest.series import column, median_where, steady_rate

_DISAGREEMENT: Final = 0.05


def token_rate(draft: RunDraft) -> float:
    """Return tokens per second and accelerator; NaN when neither printed nor derivable."""
    if np.isfinite(column(draft.run.records, "tokens_per_s_per_gpu")).any():
        return _printed(draft, "tokens_per_s_per_gpu")
    gpus = number(draft.facts, "num_gpus")
    candidates = (
        draft.size.tokens_per_gpu / draft.step_time_s,
        _printed(draft, "tokens_per_s") / gpus,
        _printed(draft, "samples_per_s") * number(draft.facts, "seq_len") / gpus,
    )
    return next((rate for rate in candidates if is_known(rate)), NAN)


def sample_rate(draft: RunDraft) -> float:
    """Return samples per second of the whole job; a printed rate that disagrees with the step time is remarked."""
    shown = _printed(draft, "samples_per_s")
    rate = draft.size.samples / draft.step_time_s
    if not is_known(rate):
        return shown
    if is_known(shown) and abs(shown / rate - 1) > _DISAGREEMENT:
        draft.note(f"the log prints {shown:.4g} samples/s, batch over step time gives {rate:.4g}")
    return rate


def _printed(draft: RunDraft, attribute: str) -> float:
    """Median of a printed rate over the records that count; its own steady state when there are no step times."""
    if draft.steady is None:
        return steady_rate(draft.run, attribute)
    return median_where(column(draft.run.records, attribute), draft.used)
