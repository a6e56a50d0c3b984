"""From a report to a plan: overrides win, what follows is derived, all that is missing is asked for at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from surrogate.errors import InputError
from surrogate.ingest.configs.derive import with_derived
from surrogate.ingest.configs.report import ConfigReport
from surrogate.plan import PLAN_COLUMNS, PartialPlan, Plan, parse_partial_plan


class Missing(NamedTuple):
    """A required setting that nobody gave, and why the file does not settle it."""

    name: str
    reason: str


def config_to_partial_plan(
    report: ConfigReport, overrides: Mapping[str, object] | None = None, *, name: str = "config"
) -> PartialPlan:
    """Return the plan that a configuration describes, with what it leaves open still open.

    Parameters
    ----------
    report : ConfigReport
        What `read_config` gave.
    overrides : mapping of str to value, optional
        Settings that win over the file's, flat (``--set name=value``; ``model`` takes a preset or a config.json).
    name : str
        What the plan is called in messages.

    Raises
    ------
    InputError
        An override names no plan field or has an impossible value.
    """
    written = {
        column: value
        for column, value in report.values.items()
        if column in PLAN_COLUMNS and column not in report.derived
    }
    partial = parse_partial_plan(written, name, overrides)
    return partial.with_values(with_derived(partial.values, report.batch_rule))


def missing_settings(report: ConfigReport, partial: PartialPlan) -> tuple[Missing, ...]:
    """Return the required settings that are still open, each with the reason; what will follow is not asked for."""
    names = partial.missing_required
    follows = {"global_batch_size"} if report.batch_rule.per_rank_batch_size and "num_gpus" in names else set()
    return tuple(
        Missing(name, report.reason(name) or "the file does not give it") for name in names if name not in follows
    )


def config_to_plan(
    report: ConfigReport, overrides: Mapping[str, object] | None = None, *, name: str = "config"
) -> Plan:
    """Return the complete plan that a configuration and the overrides describe.

    Raises
    ------
    InputError
        Something a prediction needs is not known (every such name and the reason stand in the one message), an
        override is not possible, or the settings contradict each other.
    """
    partial = config_to_partial_plan(report, overrides, name=name)
    missing = missing_settings(report, partial)
    if missing:
        names = ", ".join(setting.name for setting in missing)
        reasons = "; ".join(f"{setting.name}: {setting.reason}" for setting in missing)
        flags = " ".join(f"--set {setting.name}=..." for setting in missing)
        raise InputError(names, f"must be known to predict {name} ({reasons})", None, f"pass {flags}")
    return partial.complete()
