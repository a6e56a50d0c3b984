"""Failures, checkpoints and goodput: how much of a cluster's time trains, and what the rest is lost to."""

from typing import TYPE_CHECKING

from surrogate.lazy import lazy_names

if TYPE_CHECKING:
    from surrogate.reliability.checkpointing import (
        CheckpointLayout,
        CheckpointSize,
        CheckpointTimes,
        StorageSpec,
        checkpoint_size,
        checkpoint_times,
        memory_checkpoint_times,
        memory_recovery_probability,
        stalled_throughput_fraction,
        wasted_per_failure_s,
    )
    from surrogate.reliability.dispersion import (
        NodeDispersion,
        TimeDispersion,
        dispersion_index,
        node_dispersion,
        time_dispersion,
    )
    from surrogate.reliability.events import ExposureWindow, FailureLog, load_failure_log
    from surrogate.reliability.failures import (
        ComponentRates,
        count_interval,
        expected_failures_per_day,
        job_rate_gamma,
        rates_from_dict,
    )
    from surrogate.reliability.fit import RateFit, fit_rates
    from surrogate.reliability.hardware import COMPONENTS, HardwareCounts, hardware_counts
    from surrogate.reliability.intervals import (
        best_interval,
        check_interval,
        checkpoints_to_keep,
        daly_interval,
        exact_interval,
        interval_with_recovery,
        shortest_interval,
        young_interval,
    )
    from surrogate.reliability.priors import (
        accelerator_family,
        between_cluster_rate,
        prior_failures_per_day,
        published_prior,
    )
    from surrogate.reliability.recovery import published_restart_s
    from surrogate.reliability.simulation import RunSpec, SimulatedRuns, simulate_runs
    from surrogate.reliability.spares import (
        expected_shortfall_nodes,
        node_unavailability,
        probability_short,
        spares_for_repair,
        spares_for_window,
    )
    from surrogate.reliability.streams import FailureClass
    from surrogate.reliability.useful_time import (
        FaultTolerance,
        Goodput,
        Losses,
        first_order_ettr,
        goodput,
        job_mtbf_s,
        renewal_ettr,
        two_tier_ettr,
    )

__getattr__ = lazy_names(
    __name__,
    {
        "checkpointing": (
            "CheckpointLayout",
            "CheckpointSize",
            "CheckpointTimes",
            "StorageSpec",
            "checkpoint_size",
            "checkpoint_times",
            "memory_checkpoint_times",
            "memory_recovery_probability",
            "stalled_throughput_fraction",
            "wasted_per_failure_s",
        ),
        "dispersion": ("NodeDispersion", "TimeDispersion", "dispersion_index", "node_dispersion", "time_dispersion"),
        "events": ("ExposureWindow", "FailureLog", "load_failure_log"),
        "failures": (
            "ComponentRates",
            "count_interval",
            "expected_failures_per_day",
            "job_rate_gamma",
            "rates_from_dict",
        ),
        "fit": ("RateFit", "fit_rates"),
        "useful_time": (
            "FaultTolerance",
            "Goodput",
            "Losses",
            "first_order_ettr",
            "goodput",
            "job_mtbf_s",
            "renewal_ettr",
            "two_tier_ettr",
        ),
        "hardware": ("COMPONENTS", "HardwareCounts", "hardware_counts"),
        "intervals": (
            "best_interval",
            "check_interval",
            "checkpoints_to_keep",
            "daly_interval",
            "exact_interval",
            "interval_with_recovery",
            "shortest_interval",
            "young_interval",
        ),
        "priors": ("accelerator_family", "between_cluster_rate", "prior_failures_per_day", "published_prior"),
        "recovery": ("published_restart_s",),
        "simulation": ("RunSpec", "SimulatedRuns", "simulate_runs"),
        "spares": (
            "expected_shortfall_nodes",
            "node_unavailability",
            "probability_short",
            "spares_for_repair",
            "spares_for_window",
        ),
        "streams": ("FailureClass",),
    },
)

__all__ = [
    "COMPONENTS",
    "CheckpointLayout",
    "CheckpointSize",
    "CheckpointTimes",
    "ComponentRates",
    "ExposureWindow",
    "FailureClass",
    "FailureLog",
    "FaultTolerance",
    "Goodput",
    "HardwareCounts",
    "Losses",
    "NodeDispersion",
    "RateFit",
    "RunSpec",
    "SimulatedRuns",
    "StorageSpec",
    "TimeDispersion",
    "accelerator_family",
    "best_interval",
    "between_cluster_rate",
    "check_interval",
    "checkpoint_size",
    "checkpoint_times",
    "checkpoints_to_keep",
    "count_interval",
    "daly_interval",
    "dispersion_index",
    "exact_interval",
    "expected_failures_per_day",
    "expected_shortfall_nodes",
    "first_order_ettr",
    "fit_rates",
    "goodput",
    "hardware_counts",
    "interval_with_recovery",
    "job_mtbf_s",
    "job_rate_gamma",
    "load_failure_log",
    "memory_checkpoint_times",
    "memory_recovery_probability",
    "node_dispersion",
    "node_unavailability",
    "prior_failures_per_day",
    "probability_short",
    "published_prior",
    "published_restart_s",
    "rates_from_dict",
    "renewal_ettr",
    "shortest_interval",
    "simulate_runs",
    "spares_for_repair",
    "spares_for_window",
    "stalled_throughput_fraction",
    "time_dispersion",
    "two_tier_ettr",
    "wasted_per_failure_s",
    "young_interval",
]
