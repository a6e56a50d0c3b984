"""Expected failures of a job from rates per node-day, components adding up."""

from __future__ import annotations

import numpy as np

from surrogate.analytic.arrays import FloatLike, as_floats
from surrogate.analytic.workload import FloatArray
from surrogate.units import SECONDS_PER_DAY


def num_nodes(*, num_gpus: FloatLike, gpus_per_node: FloatLike) -> FloatArray:
    """Return the nodes of a job.

    Parameters
    ----------
    num_gpus, gpus_per_node : array_like, shape (n,)
        Accelerators of the job and of a node.

    Returns
    -------
    ndarray, shape (n,)
        Nodes, a part of one counted whole.

    Notes
    -----
    ``ceil(N_g / g)``.

    References
    ----------
    Definition.

    Examples
    --------
    >>> float(num_nodes(num_gpus=20, gpus_per_node=8))
    3.0
    """
    return as_floats(np.ceil(as_floats(num_gpus) / gpus_per_node))


def expected_failures_per_day(*, num_nodes: FloatLike, failures_per_node_day: FloatLike) -> FloatArray:
    """Return the failures that a job meets per day of running.

    Parameters
    ----------
    num_nodes : array_like, shape (n,)
        Nodes of the job; any failure on one stops it.
    failures_per_node_day : array_like, shape (n,)
        Job-stopping failures per node and day, all causes.

    Returns
    -------
    ndarray, shape (n,)
        Failures per day.

    Notes
    -----
    ``N r_f``: nodes fail independently at a constant rate.

    References
    ----------
    arXiv 2410.21680 (mean time to failure of a job, ``1 / (N r_f)``).

    Examples
    --------
    2048 nodes at 4 failures per 1000 node-days.

    >>> round(float(expected_failures_per_day(num_nodes=2048, failures_per_node_day=0.004)), 3)
    8.192
    """
    return as_floats(as_floats(num_nodes) * failures_per_node_day)


def expected_failures_per_run(*, failures_per_day: FloatLike, run_time_s: FloatLike) -> FloatArray:
    """Return the failures that a run meets in all.

    Parameters
    ----------
    failures_per_day : array_like, shape (n,)
        `expected_failures_per_day`.
    run_time_s : array_like, shape (n,)
        Wall time of the run, restarts included, in seconds.

    Returns
    -------
    ndarray, shape (n,)
        Failures.

    Notes
    -----
    ``N r_f T``; the count is Poisson, so this is its variance too.

    References
    ----------
    As `expected_failures_per_day`.

    Examples
    --------
    >>> float(expected_failures_per_run(failures_per_day=8.0, run_time_s=54 * 86400.0))
    432.0
    """
    return as_floats(as_floats(failures_per_day) * run_time_s / SECONDS_PER_DAY)


def probability_of_no_failure(*, expected_failures: FloatLike) -> FloatArray:
    """Return the probability that a period passes without a failure.

    Parameters
    ----------
    expected_failures : array_like, shape (n,)
        Mean number of failures in the period.

    Returns
    -------
    ndarray, shape (n,)
        Fraction.

    Notes
    -----
    ``exp(-x)``, Poisson.

    References
    ----------
    As `expected_failures_per_day`.

    Examples
    --------
    >>> round(float(probability_of_no_failure(expected_failures=1.0)), 4)
    0.3679
    """
    return as_floats(np.exp(-as_floats(expected_failures)))


def total_failure_rate(*, component_counts: FloatLike, component_rates: FloatLike) -> FloatArray:
    """Return the failure rate of a node from the rates of its components.

    Parameters
    ----------
    component_counts, component_rates : array_like, shape (..., k)
        Components of each class in a node, and failures per component and day.

    Returns
    -------
    ndarray, shape (...,)
        Failures per node and day.

    Notes
    -----
    ``sum_c n_c lambda_c``: any component stops the job. Do not add totals to their own parts.

    References
    ----------
    Series systems of independent exponential components, textbook.

    Examples
    --------
    Eight accelerators at 0.0003, one host at 0.0006 per day.

    >>> counts, rates = np.array([8.0, 1.0]), np.array([3e-4, 6e-4])
    >>> round(float(total_failure_rate(component_counts=counts, component_rates=rates)), 6)
    0.003
    """
    return as_floats((as_floats(component_counts) * component_rates).sum(axis=-1))
