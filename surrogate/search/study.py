"""An Optuna study over layouts: asked and told in batches, shared by workers, resumed by name.

A trial is one layout. The settings inside it (recomputation, sequence parallelism, offload, schedule) are few, so a
trial takes the best of all their combinations: one call to the predictor answers a whole batch of trials.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import optuna
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from surrogate.analytic.workload import FloatArray, IntArray
from surrogate.errors import InputError
from surrogate.search.domains import SETTING_COLUMNS
from surrogate.search.enumeration import CodeBlock, block_length, candidate_blocks
from surrogate.search.evaluation import Evaluator, Memory, join, take
from surrogate.search.exhaustive import Outcome, Ranked, rank
from surrogate.search.figures import fits
from surrogate.search.layouts import LayoutTable
from surrogate.search.near_misses import promising_misses
from surrogate.search.neighbourhood import hopeful_neighbours
from surrogate.search.objectives import COLUMN_OF, IS_MAXIMISED, shown
from surrogate.search.sampler import STARTUP_TRIALS, Algorithm, LayoutSampler, distributions_of
from surrogate.search.storage import close_storage, open_storage

SPACE_ATTRIBUTE: Final = "surrogate_space"
SETTINGS_ATTRIBUTE: Final = "settings"
EVALUATED_ATTRIBUTE: Final = "evaluated"
MEMORY_CONSTRAINT: Final = "memory"
_FRONT_PER_TRIAL: Final = 8
_CENTRES: Final = 3
"""Best layouts around which neighbours are looked for."""
_TRIAL: Final = "_trial"
"""Extra column that says which trial a candidate belongs to."""

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyOptions:
    """How a study is run.

    Parameters
    ----------
    algorithm : Algorithm
        How layouts are proposed.
    trials : int
        Layouts that this call tries.
    seconds : float, optional
        Stop after so long.
    batch : int
        Layouts asked for before any is told.
    seed : int
        Seed of proposals.
    storage : str, optional
        See `open_storage`.
    name : str
        Name of the study.
    """

    algorithm: Algorithm = Algorithm.TPE
    trials: int = 300
    seconds: float | None = None
    batch: int = 10
    seed: int = 0
    storage: str | None = None
    name: str = "search"

    def __post_init__(self) -> None:
        for field, value in (("--trials", self.trials), ("batch", self.batch)):
            if value < 1:
                raise InputError(field, "must be at least 1", value)


class LayoutStudy:
    """A study of one space.

    Parameters
    ----------
    evaluator : Evaluator
        Of the space.
    options : StudyOptions
        How to search.

    Raises
    ------
    InputError
        If the storage cannot be opened, or holds a study of another space under this name.
    """

    def __init__(self, evaluator: Evaluator, options: StudyOptions) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.evaluator, self.options = evaluator, options
        self.layouts = LayoutTable(evaluator.space)
        self._distributions = distributions_of(self.layouts)
        self._sampler = LayoutSampler(options.algorithm, self.layouts, options.seed)
        self.study = self._open()
        self.tried = 0
        self.interrupted = False

    def _open(self) -> optuna.Study:
        goal = self.evaluator.goal
        self._storage = open_storage(self.options.storage)
        try:
            study = optuna.create_study(
                storage=self._storage,
                study_name=self.options.name,
                directions=["maximize" if objective in IS_MAXIMISED else "minimize" for objective in goal.objectives],
                sampler=self._sampler,
                load_if_exists=True,
            )
            known = study.user_attrs.get(SPACE_ATTRIBUTE)
            if known is None:
                study.set_user_attr(SPACE_ATTRIBUTE, self._fingerprint())
                _name_objectives(study, [COLUMN_OF[objective] for objective in goal.objectives])
        except (SQLAlchemyError, OSError) as error:
            raise InputError("--storage", "must stay reachable", type(error).__name__) from error
        if known not in (None, self._fingerprint()):
            way_out = "give another --study name, or search what it was made for"
            raise InputError(
                "--study", "must not name a study of another plan, space or objective", study.study_name, way_out
            )
        return study

    def _fingerprint(self) -> str:
        goal = self.evaluator.goal
        wanted = (
            *goal.objectives,
            goal.tokens,
            goal.policy.price_per_gpu_hour,
            goal.is_robust,
            self.evaluator.oom_risk,
        )
        return f"{self.evaluator.space.digest} {' '.join(map(str, wanted))}"

    def add_known(self, ranked: Ranked) -> None:
        """Tell the study about layouts that were evaluated elsewhere, best first; known ones are skipped."""
        self._mark_taken()
        trials = []
        for position in range(len(ranked)):
            one = take(ranked.codes, slice(position, position + 1))
            values = {name: self.evaluator.space.domains[name].values[one[name][0]] for name in self.layouts.columns}
            row = self.layouts.row(values)
            if row is None or self.layouts.is_taken[row]:
                continue
            self.layouts.is_taken[row] = True
            trials.append(
                create_trial(
                    params=values,
                    distributions=self._distributions,
                    values=self._shown(ranked.losses[position]),
                    user_attrs={SETTINGS_ATTRIBUTE: [self._settings(one)], EVALUATED_ATTRIBUTE: 1},
                    constraints={MEMORY_CONSTRAINT: -self.evaluator.oom_risk},
                )
            )
        self.study.add_trials(trials)

    def run(self, progress: Progress | None = None) -> None:
        """Try layouts until the budget of trials or seconds is spent, or none is left.

        Notes
        -----
        An interrupt from the keyboard ends the search; all batches told until then stay in the storage.
        """
        started = time.monotonic()
        try:
            while self.tried < self.options.trials:
                self._mark_taken()
                count = min(self.options.batch, self.options.trials - self.tried, len(self.layouts.free))
                if count == 0 or self._is_late(started):
                    return
                self._try_batch(count)
                if progress is not None:
                    progress(count)
        except KeyboardInterrupt:
            self.interrupted = True
        except (SQLAlchemyError, OSError) as error:
            raise InputError("--storage", "must stay reachable", type(error).__name__) from error

    def close(self) -> None:
        """Close the connections to the storage; what was told stays."""
        close_storage(self._storage)

    def outcome(self, *, top: int, misses: int = 0) -> Outcome:
        """Return the best of every finished trial of the study, whichever worker made it."""
        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        fitting: list[FrozenTrial] = []
        failing: list[FrozenTrial] = []
        for trial in done:
            (fitting if fits(trial) else failing).append(trial)
        single = self.evaluator.goal.is_single
        best = self._ranked(fitting, top if single else None, first_only=False)
        return Outcome(
            best=best,
            misses=self._promising_misses(done, misses) if misses else None,
            least_risky=self._codes(sorted(failing, key=_risk)[:1], first_only=True),
            evaluated=sum(int(trial.user_attrs.get(EVALUATED_ATTRIBUTE, 1)) for trial in done),
            predicted=len(done),
            exhaustive=False,
            enumerated=False,
            interrupted=self.interrupted,
        )

    def _promising_misses(self, done: list[FrozenTrial], count: int) -> Ranked | None:
        rows = [row for trial in done if (row := self.layouts.row(trial.params)) is not None]
        return promising_misses(self.evaluator, self.layouts.at(np.array(rows)), count) if rows else None

    def _is_late(self, started: float) -> bool:
        return self.options.seconds is not None and time.monotonic() - started > self.options.seconds

    def _mark_taken(self) -> None:
        """Mark the layouts of all trials, those of other workers included."""
        states = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.WAITING, TrialState.FAIL)
        for trial in self.study.get_trials(deepcopy=False, states=states):
            row = self.layouts.row(trial.params)
            if row is not None:
                self.layouts.is_taken[row] = True

    def _try_batch(self, count: int) -> None:
        """Ask for layouts, evaluate all their settings at once, tell each trial its best."""
        self._sampler.propose_next(self._neighbours(count // 2))
        trials = [self.study.ask(self._distributions) for _ in range(count)]
        rows = np.array([self.layouts.row(trial.params) for trial in trials], dtype=np.int64)
        start: CodeBlock = {**self.layouts.at(rows), _TRIAL: np.arange(count, dtype=np.int16)}
        blocks = list(candidate_blocks(self.evaluator.space, start=start))
        candidates = join(blocks) if blocks else {**start}
        trial_of = candidates.pop(_TRIAL) if blocks else np.empty(0, dtype=np.int16)
        answers = self._answers(candidates, trial_of.astype(np.int64)) if blocks else {}
        for number, trial in enumerate(trials):
            self._tell(trial, answers.get(number))
        self.tried += count

    def _neighbours(self, count: int) -> list[int]:
        """Return layouts near the best ones that could be better; none for the random baseline or at the start."""
        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if self.options.algorithm is Algorithm.RANDOM or len(done) < STARTUP_TRIALS:
            return []
        best = self._most_promising([trial for trial in done if fits(trial)], _CENTRES)
        rows = [row for trial in best if (row := self.layouts.row(trial.params)) is not None]
        if not rows:
            return []
        rng = np.random.default_rng((self.options.seed, len(done)))
        objective = self.evaluator.goal.objectives[0]
        known = float(shown(objective, np.array([best[0].values[0]]))[0])
        return hopeful_neighbours(self.evaluator, self.layouts, np.array(rows), known, count, rng)

    def _answers(self, candidates: CodeBlock, trial_of: IntArray) -> dict[int, _Answer]:
        """Evaluate candidates; of each trial's the best that fit, or the least risky."""
        evaluator = self.evaluator
        memory = evaluator.memory(evaluator.prepare(candidates))
        fits = evaluator.fits(memory)
        wanted = fits.copy()
        for trial in np.unique(trial_of):
            own = np.flatnonzero(trial_of == trial)
            if not fits[own].any():
                wanted[own[np.argmin(memory.oom_probability[own])]] = True
        rows = np.flatnonzero(wanted)
        losses = evaluator.losses(take(candidates, rows), _rows_of(memory, rows))
        answers = {}
        for trial in np.unique(trial_of):
            own = np.flatnonzero(trial_of[rows] == trial)
            ranked = rank(take(candidates, rows[own]), losses[own], 1 if evaluator.goal.is_single else None)
            answers[int(trial)] = _Answer(
                ranked=ranked,
                excess_risk=float(memory.oom_probability[rows[own]].min() - evaluator.oom_risk),
                evaluated=int(np.sum(trial_of == trial)),
            )
        return answers

    def _tell(self, trial: Trial, answer: _Answer | None) -> None:
        if answer is None:
            self.study.tell(trial, state=TrialState.FAIL)
            return
        ranked = answer.ranked
        kept = [
            self._settings(take(ranked.codes, slice(row, row + 1))) for row in range(min(len(ranked), _FRONT_PER_TRIAL))
        ]
        trial.set_user_attr(SETTINGS_ATTRIBUTE, kept)
        trial.set_user_attr(EVALUATED_ATTRIBUTE, answer.evaluated)
        trial.set_constraint(MEMORY_CONSTRAINT, answer.excess_risk)
        self.study.tell(trial, self._shown(ranked.losses[0]))

    def _settings(self, one: CodeBlock) -> dict[str, Any]:
        domains = self.evaluator.space.domains
        return {name: domains[name].values[one[name][0]] for name in SETTING_COLUMNS}

    def _shown(self, losses: FloatArray) -> list[float]:
        objectives = self.evaluator.goal.objectives
        return [float(shown(objective, losses[place])) for place, objective in enumerate(objectives)]

    def _ranked(self, trials: list[FrozenTrial], top: int | None, *, first_only: bool) -> Ranked | None:
        """Evaluate the recorded candidates of trials again and rank them."""
        if top is not None:
            trials = self._most_promising(trials, max(top, 1))
        codes = self._codes(trials, first_only=first_only)
        if codes is None:
            return None
        memory = self.evaluator.memory(self.evaluator.prepare(codes))
        return rank(codes, self.evaluator.losses(codes, memory), top)

    def _most_promising(self, trials: list[FrozenTrial], top: int) -> list[FrozenTrial]:
        sign = -1.0 if self.evaluator.goal.objectives[0] in IS_MAXIMISED else 1.0
        return sorted(trials, key=lambda trial: (sign * trial.values[0], trial.number))[:top]

    def _codes(self, trials: list[FrozenTrial], *, first_only: bool) -> CodeBlock | None:
        domains = self.evaluator.space.domains
        columns: dict[str, list[int]] = {name: [] for name in domains}
        for trial in trials:
            recorded: list[Mapping[str, Any]] = trial.user_attrs.get(SETTINGS_ATTRIBUTE, [])
            for settings in recorded[:1] if first_only else recorded:
                values = {**trial.params, **settings}
                for name, domain in domains.items():
                    columns[name].append(0 if domain.is_fixed else domain.values.index(values[name]))
        codes = {name: np.array(column, dtype=np.int16) for name, column in columns.items()}
        return codes if block_length(codes) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """What one trial came to."""

    ranked: Ranked
    excess_risk: float
    """Risk of running out of memory above the accepted one; at most 0 when it fits."""
    evaluated: int


def _name_objectives(study: optuna.Study, names: list[str]) -> None:
    """Name what a study's values are, for its pictures; Optuna calls that experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names(names)


def _risk(trial: FrozenTrial) -> tuple[float, int]:
    return max(trial.constraints.values(), default=0.0), trial.number


def _rows_of(memory: Memory, rows: IntArray) -> Memory:
    return Memory(peak_bytes=memory.peak_bytes[rows], oom_probability=memory.oom_probability[rows])
