"""Discrete-event simulation of a run: what the closed form assumes away can be switched on.

All replications advance together, one failure at a time. State per replication: when training is ready again,
useful seconds committed, and the return times of the nodes that have been out longest. The job needs N of N + S
nodes, so it must wait exactly until the (S + 1)-th latest return; only the latest ``S + reserve`` are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from surrogate.errors import InputError
from surrogate.reliability.arrays import BoolArray, FloatArray, IntArray, real
from surrogate.reliability.goodput import WhenShort
from surrogate.reliability.intervals import check_interval
from surrogate.reliability.streams import FailureClass, FailureStreams, draw_failure_streams

_ELASTIC_RESERVE: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """A run to simulate; seconds unless named.

    Parameters
    ----------
    classes : tuple of FailureClass
        What fails.
    interval_s, stall_s, persist_s : float
        Useful time between checkpoints, stall of each, background time until it is usable.
    outage_s : float
        From a failure until training goes on: detection, restart and load; a failure in it starts it over.
    num_nodes, spares : int
        Job nodes and warm spares.
    repair_crews : int
        Repairs that can go on at a time; 0 for any number.
    when_short : {"wait", "elastic"}
        Wait for a repair, or run on at the speed of the nodes that are left.
    """

    classes: tuple[FailureClass, ...]
    interval_s: float
    stall_s: float
    outage_s: float
    persist_s: float = 0.0
    num_nodes: int = 1
    spares: int = 0
    repair_crews: int = 0
    when_short: WhenShort = "wait"

    def __post_init__(self) -> None:
        for name in ("stall_s", "outage_s", "persist_s", "spares", "repair_crews"):
            real(name, getattr(self, name))
        check_interval(interval_s=self.interval_s, save_s=self.persist_s - self.stall_s)
        largest = max((cls.nodes_lost for cls in self.classes), default=0)
        if largest > self.num_nodes + self.spares:
            raise InputError("nodes_lost", "must not exceed the nodes there are", largest, "give more nodes or spares")


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedRuns:
    """Outcome per replication, arrays of shape (replications,).

    ``wall_s`` is the time to the end of the work, or the wall limit where ``finished`` is false; ``useful_s`` the
    work committed by then; ``waiting_s`` the time spent waiting for nodes.
    """

    wall_s: FloatArray
    useful_s: FloatArray
    waiting_s: FloatArray
    interruptions: FloatArray
    finished: BoolArray

    @property
    def ettr(self) -> FloatArray:
        """Useful over wall time."""
        return self.useful_s / self.wall_s


@dataclass(slots=True)
class _State:
    ready: FloatArray
    restarted: FloatArray
    committed: FloatArray
    waiting: FloatArray
    interruptions: FloatArray
    returns: FloatArray
    crews: FloatArray
    end: FloatArray
    limit: float


def simulate_runs(
    spec: RunSpec, *, useful_s: float, wall_limit_s: float, replications: int = 200, seed: int = 0
) -> SimulatedRuns:
    """Simulate independent copies of a run.

    Parameters
    ----------
    spec : RunSpec
        The run.
    useful_s : float
        Work to do, in seconds of undisturbed training; infinity to run to the wall limit.
    wall_limit_s : float
        Wall clock at which a run is given up.
    replications : int
        Copies.
    seed : int
        Same seed, same result.

    Returns
    -------
    SimulatedRuns

    Notes
    -----
    Clocks run in wall time and a replaced part starts a new life. Work committed in a life of length Y is
    floor((Y - t_p) / (dt + w)) intervals. In an elastic run Y is the integral of the share of nodes at work.
    """
    rng = np.random.default_rng(seed)
    streams = draw_failure_streams(spec.classes, horizon_s=wall_limit_s, replications=replications, rng=rng)
    state = _initial_state(spec, replications, wall_limit_s)
    for column in range(streams.time_s.shape[1]):
        rows = np.flatnonzero(np.isnan(state.end) & (state.ready < wall_limit_s))
        if not rows.size:
            break
        _advance(spec, state, rows, np.minimum(streams.time_s[rows, column], wall_limit_s), useful_s)
        failed = np.isfinite(streams.time_s[rows, column])
        state.ready[rows[~failed]] = np.inf
        _fail(spec, state, rows[failed & np.isnan(state.end[rows])], streams, column, rng)
    finished = np.isfinite(state.end)
    return SimulatedRuns(
        wall_s=np.where(finished, state.end, wall_limit_s),
        useful_s=np.where(finished, useful_s, state.committed),
        waiting_s=state.waiting,
        interruptions=state.interruptions,
        finished=finished,
    )


def _initial_state(spec: RunSpec, replications: int, wall_limit_s: float) -> _State:
    largest = max((cls.nodes_lost for cls in spec.classes), default=0)
    kept = spec.spares + max(1, largest, _ELASTIC_RESERVE if spec.when_short == "elastic" else 0)
    return _State(
        ready=np.zeros(replications),
        restarted=np.zeros(replications),
        committed=np.zeros(replications),
        waiting=np.zeros(replications),
        interruptions=np.zeros(replications),
        returns=np.full((replications, kept), -np.inf),
        crews=np.full((replications, max(spec.repair_crews, 1)), -np.inf),
        end=np.full(replications, np.nan),
        limit=wall_limit_s,
    )


def _advance(spec: RunSpec, state: _State, rows: IntArray, until: FloatArray, useful_s: float) -> None:
    """Train from ``ready`` to the next failure or the wall limit: commit intervals, or finish."""
    period = spec.interval_s + spec.stall_s
    ready = state.ready[rows]
    life = np.maximum(until - ready, 0.0)
    speed = _speed(spec, state.returns[rows], ready, until)
    remaining = useful_s - state.committed[rows]
    needed = remaining + spec.stall_s * np.ceil(remaining / spec.interval_s - 1e-9)
    done = (life * speed >= needed) & (life > 0.0)
    state.end[rows[done]] = ready[done] + needed[done] / speed[done]
    intervals = np.maximum(np.floor((life * speed - spec.persist_s) / period), 0.0)
    state.committed[rows] += np.where(done, 0.0, np.minimum(intervals * spec.interval_s, remaining))


def _speed(spec: RunSpec, returns: FloatArray, ready: FloatArray, until: FloatArray) -> FloatArray:
    """Return the mean share of nodes at work in [ready, until]; 1 for a job that waits until it is complete."""
    life = until - ready
    if spec.when_short == "wait":
        return np.ones_like(life)
    # the j-th latest return leaves the job one node short, beyond the spares, for as long as it is still to come
    beyond = np.sort(returns, axis=1)[:, ::-1][:, spec.spares :]
    short = np.clip(beyond - ready[:, None], 0.0, np.maximum(life, 0.0)[:, None]).sum(axis=1)
    lost = np.divide(short, life * spec.num_nodes, out=np.zeros_like(life), where=life > 0.0)
    speed: FloatArray = np.clip(1.0 - lost, 1.0 / spec.num_nodes, 1.0)
    return speed


def _fail(
    spec: RunSpec,
    state: _State,
    rows: IntArray,
    streams: FailureStreams,
    column: int,
    rng: np.random.Generator,
) -> None:
    """Interrupt the run: roll back, send nodes to repair, and set when training is ready again."""
    now, kind = streams.time_s[rows, column], streams.kind[rows, column]
    state.interruptions[rows] += 1.0
    rollback = np.array([cls.rollback_s for cls in spec.classes])[kind]
    share = spec.interval_s / (spec.interval_s + spec.stall_s)
    state.committed[rows] = np.maximum(state.committed[rows] - rollback * share, 0.0)
    nodes_lost = np.array([cls.nodes_lost for cls in spec.classes])[kind]
    repair = np.array([cls.repair_s for cls in spec.classes])[kind] * rng.standard_exponential(len(rows))
    for lost in range(int(nodes_lost.max(initial=0))):
        broken = nodes_lost > lost
        _send_to_repair(spec, state, rows[broken], now[broken], repair[broken])
    restarted = now + spec.outage_s
    complete = restarted
    if spec.when_short == "wait":
        enough = np.sort(state.returns[rows], axis=1)[:, -1 - spec.spares]
        complete = np.maximum(restarted, np.minimum(enough, state.limit))
    # a failure during a wait ends that wait: take back what it was credited beyond now
    unserved = np.maximum(state.ready[rows] - np.maximum(now, state.restarted[rows]), 0.0)
    state.waiting[rows] += complete - restarted - unserved
    state.restarted[rows], state.ready[rows] = restarted, complete


def _send_to_repair(spec: RunSpec, state: _State, rows: IntArray, now: FloatArray, repair: FloatArray) -> None:
    """Queue one broken node per replication for a crew and remember its return if it is among the latest."""
    begin = now
    if spec.repair_crews:
        crew = np.argmin(state.crews[rows], axis=1)
        begin = np.maximum(now, state.crews[rows, crew])
        state.crews[rows, crew] = begin + repair
    earliest = np.argmin(state.returns[rows], axis=1)
    state.returns[rows, earliest] = np.maximum(state.returns[rows, earliest], begin + repair)
