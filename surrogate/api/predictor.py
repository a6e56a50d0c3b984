"""The whole predictor: step time, memory, utilisation, failures and feasibility of any number of plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from surrogate.analytic.memory import NO_RULE_BROKEN, first_broken_rule
from surrogate.analytic.model_flops import flops_utilization, model_flops_per_token
from surrogate.analytic.model_parameters import model_parameters
from surrogate.analytic.step_time import StepTimeBreakdown
from surrogate.analytic.workload import BoolArray, FloatArray, Workload
from surrogate.api.imputed import imputed_fields
from surrogate.api.manifest import Manifest, read_manifest
from surrogate.api.model_directory import MEMORY_FOLDER, STEP_TIME_FOLDER, Origin, locate_model
from surrogate.estimators.evidence import nearest_evidence
from surrogate.estimators.oom import DEFAULT_OOM_RISK
from surrogate.features.workload import PreparedRuns, prepare_runs
from surrogate.reliability.priors import prior_failures_per_day

if TYPE_CHECKING:
    from surrogate.estimators import HybridPredictor
    from surrogate.estimators.memory_model import MemoryModel, MemoryPrediction

PARTS: Final = tuple(field.name for field in fields(StepTimeBreakdown))
"""Causes of a step's time, in seconds; they sum to `step_time_s`."""

FIGURES: Final = (
    "step_time_s",
    "step_time_lower_s",
    "step_time_upper_s",
    "analytic_step_time_s",
    "log_sd",
    "similarity",
    "site_knowledge",
    "in_domain",
    "out_of_domain_reasons",
    "tokens_per_s_per_gpu",
    "mfu",
    "expected_failures_per_day",
    "num_params",
    "peak_memory_bytes",
    "peak_memory_lower_bytes",
    "peak_memory_upper_bytes",
    "oom_probability",
    "feasible",
)
"""Columns of a prediction besides `PARTS`."""

CHUNK_ROWS: Final = 20_000
"""Rows computed at once: memory stays flat however many there are."""

EVIDENCE_RUNS: Final = 3
EVIDENCE_COLUMNS: Final = ("run_id", "source", "measured_step_time_s", "predicted_step_time_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Who measures: what selects the habits that a prediction follows."""

    name: str
    source: str | None
    family: str | None
    """None where the population's habits apply."""
    own_runs: int = 0
    """Measured runs of its own that the predictor was given."""

    @property
    def is_known(self) -> bool:
        """Whether anything but the population's habits applies."""
        return self.source is not None or self.family is not None


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A trained predictor, ready for tables of plans.

    Parameters
    ----------
    step_time, memory
        The two fitted models.
    manifest : Manifest
        Where they come from.
    directory : Path
        Where they were read.
    origin : Origin
        Who named that directory.
    site : Site, optional
        The site that every plan belongs to, instead of what its own `source` says.
    """

    step_time: HybridPredictor
    memory: MemoryModel
    manifest: Manifest
    directory: Path
    origin: Origin
    site: Site | None = None

    @property
    def name(self) -> str:
        """What predictions say they come from."""
        return self.manifest.name + (f"+{self.site.name}" if self.site and self.site.own_runs else "")

    def describe(self) -> str:
        """Return one line for people: which predictor, from where, trained on what."""
        place = "packaged with the product" if self.origin is Origin.PACKAGED else f"{self.directory} ({self.origin})"
        measured = self.manifest.data.get("measured")
        return f"{self.name}, {place}, trained on {measured} measured runs"

    def at_site(self, site: Site) -> Predictor:
        """Return the predictor for plans of one site, whoever their own `source` names."""
        return replace(self, site=site)

    def with_runs(self, runs: pd.DataFrame) -> Predictor:
        """Return the predictor with measured runs added, without training anew; their `source` names their site."""
        memory = self.memory.condition(runs, prepare_runs(runs).workload)
        return replace(self, step_time=self.step_time.condition(runs), memory=memory)

    def predict_frame(self, plans: pd.DataFrame, *, coverage: float = 0.9, with_evidence: bool = False) -> pd.DataFrame:
        """Predict a table of plans.

        Parameters
        ----------
        plans : DataFrame of n rows
            Canonical columns of the runs table; optional ones may be absent. `source` or `publisher_family` select
            the site.
        coverage : float
            Probability that the interval holds the measured step time.
        with_evidence : bool
            Also give the columns `imputed`, names of the fields that were filled by rule, and `nearest_runs`, the
            measured runs behind the answer as `nearest_runs` gives them.

        Returns
        -------
        DataFrame of n rows
            With the index of `plans`: step_time_s, step_time_lower_s, step_time_upper_s, tokens_per_s_per_gpu, mfu,
            analytic_step_time_s, peak_memory_bytes, oom_probability, feasible, in_domain, out_of_domain_reasons,
            expected_failures_per_day, num_params, log_sd, similarity, site_knowledge, and the parts of `PARTS`.

        Raises
        ------
        InputError
            If an accelerator or its rate is not in the catalogue.
        """
        if plans.empty:
            names = [*FIGURES, *PARTS, *(["imputed", "nearest_runs"] if with_evidence else [])]
            return pd.DataFrame(columns=names, index=plans.index, dtype=np.float64)
        return pd.concat(
            [self._predict_chunk(chunk, coverage, with_evidence=with_evidence) for chunk in _chunks(plans)]
        )

    def nearest_runs(self, plans: pd.DataFrame, k: int = EVIDENCE_RUNS) -> list[list[dict[str, object]]]:
        """Return the k measured runs nearest to each plan: run_id, source, distance, measured and predicted times."""
        return self.step_time.nearest_runs(self.sited(plans), k)

    def measured_runs(self) -> pd.DataFrame:
        """Return the measured runs it knows: run_id, source, measured_step_time_s, predicted_step_time_s."""
        evidence = self.step_time.evidence_
        return pd.DataFrame({name: getattr(evidence, name) for name in EVIDENCE_COLUMNS})

    def sited(self, plans: pd.DataFrame) -> pd.DataFrame:
        """Return plans with the predictor's site, or with the family of each known `source` that names none."""
        if self.site is not None:
            text = {"source": self.site.source, "publisher_family": self.site.family}
            return plans.assign(
                **{name: pd.Series(value, index=plans.index, dtype="str") for name, value in text.items()}
            )
        if "source" not in plans:
            return plans
        usual = {source: families[0] for source, families in self.manifest.sites.items() if families}
        families = plans["source"].map(usual).astype("str")
        if "publisher_family" in plans:
            families = plans["publisher_family"].astype("str").fillna(families)
        return plans.assign(publisher_family=families)

    def _predict_chunk(self, plans: pd.DataFrame, coverage: float, *, with_evidence: bool) -> pd.DataFrame:
        from surrogate.estimators.hybrid import prepare_table

        plans = self.sited(plans)
        table = prepare_table(plans)
        prepared = table.prepared
        times = self.step_time.predict_prepared_frame(table, coverage=coverage)
        memory = self.memory.predict(plans, prepared.workload)
        predicted = times.assign(**_derived_columns(prepared, times), **_memory_columns(prepared.workload, memory))
        if not with_evidence:
            return predicted
        nearest = nearest_evidence(self.step_time.evidence_, table.knobs, prepared, EVIDENCE_RUNS)
        lists = {"imputed": imputed_fields(prepared), "nearest_runs": nearest}
        return predicted.assign(
            **{name: pd.Series(rows, index=plans.index, dtype=object) for name, rows in lists.items()}
        )


def load_predictor(model_dir: str | Path | None = None) -> Predictor:
    """Load the predictor to use.

    Parameters
    ----------
    model_dir : str or Path, optional
        A directory that `train` wrote; without it `SURROGATE_MODEL_DIR`, and without that the packaged predictor.

    Raises
    ------
    ModelDirectoryError
        If the directory is missing, truncated, altered, or of another version.
    """
    from surrogate.estimators import HybridPredictor
    from surrogate.estimators.memory_model import MemoryModel

    located = locate_model(model_dir)
    manifest = read_manifest(located.directory)
    return Predictor(
        step_time=HybridPredictor.load(located.directory / STEP_TIME_FOLDER),
        memory=MemoryModel.load(located.directory / MEMORY_FOLDER),
        manifest=manifest,
        directory=located.directory,
        origin=located.origin,
    )


def _chunks(plans: pd.DataFrame) -> Iterator[pd.DataFrame]:
    return (plans.iloc[start : start + CHUNK_ROWS] for start in range(0, len(plans), CHUNK_ROWS))


def _derived_columns(prepared: PreparedRuns, times: pd.DataFrame) -> dict[str, FloatArray]:
    w = prepared.workload
    step_time_s = times["step_time_s"].to_numpy(dtype=np.float64)
    tokens = w.global_batch_size * w.seq_len
    flops = model_flops_per_token(w) * tokens
    names: Sequence[str] = [str(name) for name in prepared.hardware.accelerator]
    return {
        "tokens_per_s_per_gpu": tokens / (step_time_s * w.num_gpus),
        "mfu": flops_utilization(
            flops=flops, step_time_s=step_time_s, num_gpus=w.num_gpus, peak_flops_per_s=w.peak_flops_per_s
        ),
        "expected_failures_per_day": prior_failures_per_day(
            num_gpus=w.num_gpus, gpus_per_node=np.minimum(w.gpus_per_node, w.num_gpus), accelerator=names
        ),
        "num_params": model_parameters(w).total,
    }


def _memory_columns(w: Workload, memory: MemoryPrediction) -> dict[str, FloatArray | BoolArray]:
    fits = memory.oom_probability < DEFAULT_OOM_RISK
    return {
        "peak_memory_bytes": memory.peak_bytes,
        "peak_memory_lower_bytes": memory.lower_bytes,
        "peak_memory_upper_bytes": memory.upper_bytes,
        "oom_probability": memory.oom_probability,
        "feasible": fits & (first_broken_rule(w) == NO_RULE_BROKEN),
    }
