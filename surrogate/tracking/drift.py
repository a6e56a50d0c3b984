"""Drift of a site: cumulative sums of standardised one-step-ahead residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALLOWANCE: Final = 0.5
"""Half the shift to notice, in standard deviations."""
THRESHOLD: Final = 5.0
"""With it a one-sided sum without drift alarms once in about 930 runs, and within 10.4 runs of a shift by one standard
deviation (Montgomery, Introduction to Statistical Quality Control, table 9.3: 465 and 10.4 for both sides)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """State of the sums after the last run."""

    alarm: bool
    slower_sum: float
    faster_sum: float
    since: int | None
    """Position of the run with which the shift seems to have begun; None without an alarm."""

    def describe(self) -> str:
        """Return the state in words."""
        largest = max(self.slower_sum, self.faster_sum)
        sums = f"CUSUM {largest:.1f} of {THRESHOLD:g}"
        if not self.alarm:
            return sums
        direction = "slower" if self.slower_sum > self.faster_sum else "faster"
        return f"runs have become {direction} than predicted since run {(self.since or 0) + 1} ({sums})"


def detect_drift(residuals: Sequence[float], *, allowance: float = ALLOWANCE, threshold: float = THRESHOLD) -> Drift:
    """Return the state of the two-sided CUSUM.

    Parameters
    ----------
    residuals : sequence of float
        log(measured / predicted) over its predicted standard deviation, in the order of the runs.
    allowance, threshold : float
        In standard deviations.

    Notes
    -----
    ``S+_i = max(0, S+_(i-1) + z_i - k)``, ``S-_i = max(0, S-_(i-1) - z_i - k)``; alarm when one exceeds h.

    References
    ----------
    Page 1954, Biometrika 41, 100-115.

    Examples
    --------
    >>> detect_drift([0.0, 2.5, 2.5, 2.5]).alarm, detect_drift([1.0, -1.0, 1.0, -1.0]).alarm
    (True, False)
    """
    slower = faster = 0.0
    slower_since = faster_since = 0
    for position, residual in enumerate(residuals):
        slower_since = slower_since if slower > 0.0 else position
        faster_since = faster_since if faster > 0.0 else position
        slower = max(0.0, slower + residual - allowance)
        faster = max(0.0, faster - residual - allowance)
    alarm = max(slower, faster) > threshold
    since = slower_since if slower >= faster else faster_since
    return Drift(alarm=alarm, slower_sum=slower, faster_sum=faster, since=since if alarm else None)
