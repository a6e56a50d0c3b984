"""A complete training configuration, and one with fields still open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from types import MappingProxyType
from typing import Any, Final

from surrogate.errors import InputError
from surrogate.plan.rules import check_consistency
from surrogate.plan.specs import ClusterSpec, ModelSpec, ParallelismSpec, TrainingSpec
from surrogate.plan.values import Value
from surrogate.schema.columns import REQUIRED_COLUMNS

ORIGIN_COLUMNS: Final = ("source", "publisher_family", "date", "notes")
SECTION_COLUMNS: Final = {
    "model": tuple(field.name for field in fields(ModelSpec)),
    "cluster": tuple(field.name for field in fields(ClusterSpec)),
    "parallelism": tuple(field.name for field in fields(ParallelismSpec)),
    "training": tuple(field.name for field in fields(TrainingSpec)),
}
"""The columns of each section of a plan."""
PLAN_COLUMNS: Final = (*ORIGIN_COLUMNS, *(column for columns in SECTION_COLUMNS.values() for column in columns))


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One configuration that can be predicted: every required value is there and the parts fit together.

    Parameters
    ----------
    name : str
        What predictions are listed under; a plan file's name.
    model, cluster, parallelism, training
        The four parts.
    source, publisher_family : str, optional
        The site whose habits apply; without them the population's.
    date, notes : str, optional
        For people.

    Raises
    ------
    InputError
        If the parts contradict each other: field, rule, value and way out.
    """

    name: str
    model: ModelSpec
    cluster: ClusterSpec
    parallelism: ParallelismSpec
    training: TrainingSpec
    source: str | None = None
    publisher_family: str | None = None
    date: str | None = None
    notes: str | None = None

    def __post_init__(self) -> None:
        check_consistency(self.model, self.cluster, self.parallelism, self.training)

    @property
    def dp(self) -> int:
        """Data parallel replicas: num_gpus / (tp * pp * cp)."""
        return self.cluster.num_gpus // self.parallelism.model_parallel_size

    @property
    def num_microbatches(self) -> float | None:
        """Micro-batches per step and replica; None while the micro-batch size is open."""
        if self.training.micro_batch_size is None:
            return None
        return self.training.global_batch_size / (self.training.micro_batch_size * self.dp)

    @property
    def tokens_per_step(self) -> int:
        """Tokens in one optimizer step."""
        return self.training.global_batch_size * self.training.seq_len

    @property
    def num_nodes(self) -> float:
        """Nodes, by the plan's node size or else the accelerator's typical one."""
        return self.cluster.num_gpus / (self.cluster.gpus_per_node or self.cluster.accelerator_entry.gpus_per_node)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartialPlan:
    """A plan with fields left open, for a search to fill in.

    Parameters
    ----------
    name : str
        What it is listed under.
    values : Mapping[str, Value]
        The given values by canonical column name, each checked alone. A column that is not here is open.
    """

    name: str
    values: Mapping[str, Value]

    @property
    def missing_required(self) -> tuple[str, ...]:
        """Required columns that are still open, in the order of the runs table."""
        return tuple(column for column in REQUIRED_COLUMNS if column not in self.values)

    def open_among(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return which of the given columns are open."""
        return tuple(column for column in columns if column not in self.values)

    def with_values(self, values: Mapping[str, Value]) -> PartialPlan:
        """Return the plan with more values given; given ones are replaced."""
        return PartialPlan(name=self.name, values=MappingProxyType({**self.values, **values}))

    def complete(self) -> Plan:
        """Return the plan, ready to predict.

        Raises
        ------
        InputError
            If required values are missing (all are named at once) or the parts contradict each other.
        """
        if self.missing_required:
            options = " ".join(f"--set {column}=..." for column in self.missing_required)
            rule = "must be given to predict"
            raise InputError(", ".join(self.missing_required), rule, None, f"add them to the plan or pass {options}")
        values = {"dp": self._data_parallel_size(), **self.values}
        return Plan(
            name=self.name,
            model=ModelSpec(**_chosen(values, SECTION_COLUMNS["model"])),
            cluster=ClusterSpec(**_chosen(values, SECTION_COLUMNS["cluster"])),
            parallelism=ParallelismSpec(**_chosen(values, SECTION_COLUMNS["parallelism"])),
            training=TrainingSpec(**_chosen(values, SECTION_COLUMNS["training"])),
            **_chosen(values, ORIGIN_COLUMNS),
        )

    def _data_parallel_size(self) -> int:
        """Return num_gpus / (tp * pp * cp), rounded down; whether it divides is a rule of `Plan`."""
        replica = prod(int(self.values.get(column, 1)) for column in ("tp", "pp", "cp"))
        return max(1, int(self.values["num_gpus"]) // replica)


def _chosen(values: Mapping[str, Value], columns: tuple[str, ...]) -> dict[str, Any]:
    return {column: values[column] for column in columns if column in values}
