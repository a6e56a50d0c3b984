"""Failure logs: strict reading, departures from Poisson, fitted rates."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from surrogate.errors import FileFormatError, InputError, TableError
from surrogate.reliability.dispersion import dispersion_index, node_dispersion, time_dispersion
from surrogate.reliability.events import ExposureWindow, FailureLog, load_failure_log
from surrogate.reliability.fit import fit_rates
from surrogate.reliability.hardware import hardware_counts

WINDOW = ExposureWindow(days=100.0, num_nodes=16)
TRACE = Path(__file__).parents[2] / "data" / "reliability" / "infinitehbd_outages.csv"


def _write(folder: Path, *lines: str, header: str = "start_day,end_day,node,component") -> Path:
    path = folder / "events.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def _log(start_day: np.ndarray, node: list[str], *, days: float = 100.0, num_nodes: int = 16) -> FailureLog:
    window = ExposureWindow(days=days, num_nodes=num_nodes)
    order = np.argsort(start_day)
    named = tuple(node[row] for row in order)
    start = np.sort(start_day)
    return FailureLog(
        window=window, start_day=start, end_day=start + 1, node=named, component=tuple("gpu" for _ in named)
    )


def test_a_log_in_days(tmp_path: Path) -> None:
    log = load_failure_log(_write(tmp_path, "1.5,2.0,n1,gpu", "3,,n2,hbm", "4,4.5,,planned"), WINDOW)
    assert log.component_counts() == {"gpu": 1, "hbm": 1}
    assert len(log.failures()) == 2
    assert log.mean_repair_hours() == pytest.approx(12.0)


def test_a_log_in_dates_counts_from_the_start_of_the_window(tmp_path: Path) -> None:
    window = ExposureWindow(days=31.0, num_nodes=4, start=datetime(2026, 1, 1))
    lines = ("2026-01-02T12:00,2026-01-03,n1,gpu", "2026-01-05T00:00:00Z,,n2,nic")
    log = load_failure_log(_write(tmp_path, *lines, header="start,end,node,component"), window)
    assert log.start_day.tolist() == [1.5, 4.0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["101,,n1,gpu"], "row 2 .n1.: `start` must lie inside the exposure window of 100 days, got day 101"),
        (["-1,,n1,gpu"], "must lie inside the exposure window"),
        (["5,,n1,gpu", "4,,n2,gpu"], "row 3 .n2.: `start` must not lie before the row above"),
        (["5,9,n1,gpu", "7,8,n1,gpu"], "row 3 .n1.: `start` must not lie inside an earlier outage"),
        (["5,4,n1,gpu"], "must not lie before the start"),
        (["soon,,n1,gpu"], "must be a day number or an ISO date, got soon"),
        (["5,,n1,gpuu"], "did you mean|must be a known name"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(TableError, match=message):
        load_failure_log(_write(tmp_path, *lines), WINDOW)


def test_all_bad_rows_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(TableError) as caught:
        load_failure_log(_write(tmp_path, "101,,n1,gpu", "5,,n2,fan", "200,,n3,gpu"), WINDOW)
    assert [problem.row for problem in caught.value.problems] == [2, 3, 3, 4]


def test_overlaps_are_merged_on_request(tmp_path: Path) -> None:
    path = _write(tmp_path, "5,9,n1,gpu", "7,12,n1,gpu", "13,14,n1,gpu", "7,8,n2,gpu")
    with pytest.raises(TableError):
        load_failure_log(path, WINDOW, merge_overlaps=True)
    sorted_path = _write(tmp_path, "5,9,n1,gpu", "7,12,n1,gpu", "7,8,n2,gpu", "13,14,n1,gpu")
    log = load_failure_log(sorted_path, WINDOW, merge_overlaps=True)
    assert log.start_day.tolist() == [5, 7, 13]
    assert log.end_day.tolist() == [12, 8, 14]


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_failure_log(tmp_path / "none.csv", WINDOW)
    with pytest.raises(FileFormatError, match="is not a failure log"):
        load_failure_log(_write(tmp_path, "1,2", header="a,b"), WINDOW)
    with pytest.raises(InputError, match="start date"):
        load_failure_log(_write(tmp_path, "2026-01-02,,n1,gpu", header="start,end,node,component"), WINDOW)


@pytest.mark.parametrize(("days", "nodes", "field"), [(0.0, 4, "exposure"), (-3.0, 4, "exposure"), (10.0, 0, "nodes")])
def test_no_exposure_is_refused(days: float, nodes: int, field: str) -> None:
    with pytest.raises(InputError) as caught:
        ExposureWindow(days=days, num_nodes=nodes)
    assert caught.value.field == field


def test_the_trace_has_the_departures_its_reference_states() -> None:
    window = ExposureWindow(days=350.0, num_nodes=400)
    with pytest.raises(TableError, match="2 problem"):
        load_failure_log(TRACE, window)
    log = load_failure_log(TRACE, window, merge_overlaps=True)
    nodes, over_time = node_dispersion(log), time_dispersion(log)
    assert nodes is not None
    assert over_time is not None
    assert nodes.dispersion == pytest.approx(2.6, abs=0.05)
    assert nodes.worst_share == pytest.approx(0.24, abs=0.01)
    assert over_time.gap_cv == pytest.approx(1.76, abs=0.02)
    assert nodes.rejects_poisson
    assert over_time.rejects_poisson


def test_a_poisson_log_is_not_accused() -> None:
    rng = np.random.default_rng(5)
    accused = 0
    for _ in range(100):
        count = rng.poisson(80)
        log = _log(rng.uniform(0, 100, count), [f"n{node}" for node in rng.integers(0, 16, count)])
        nodes, over_time = node_dispersion(log), time_dispersion(log)
        accused += bool(nodes and nodes.rejects_poisson) + bool(over_time and over_time.rejects_poisson)
    assert accused <= 12, "two tests at 1 %, one of them double, a hundred times"


def test_a_lemon_node_and_a_burst_are_found() -> None:
    rng = np.random.default_rng(6)
    names = [f"n{node}" for node in rng.integers(0, 16, 40)] + ["n3"] * 25
    nodes = node_dispersion(_log(rng.uniform(0, 100, 65), names))
    assert nodes is not None
    assert nodes.lemon_nodes == ("n3",)
    assert nodes.frailty_shape < 5
    burst = time_dispersion(_log(np.concatenate([rng.uniform(0, 100, 40), rng.uniform(50, 55, 40)]), ["n1"] * 80))
    assert burst is not None
    assert burst.dispersion > 5
    rising = time_dispersion(_log(100 * np.sqrt(rng.uniform(size=200)), ["n1"] * 200))
    assert rising is not None
    assert rising.trend_p_value < 1e-6


def test_too_little_to_test_says_nothing() -> None:
    assert time_dispersion(_log(np.array([1.0, 2.0]), ["n1", "n2"])) is None
    assert node_dispersion(_log(np.array([1.0]), [""])) is None
    with pytest.raises(InputError, match="at least two blocks"):
        dispersion_index([3])
    with pytest.raises(InputError, match="cover the 3 nodes"):
        node_dispersion(_log(np.array([1.0, 2.0, 3.0]), ["a", "b", "c"], num_nodes=2))


def test_a_fit_says_what_departs_and_widens_for_it() -> None:
    log = load_failure_log(TRACE, ExposureWindow(days=349.0, num_nodes=400), merge_overlaps=True)
    fitted = fit_rates(log, counts=hardware_counts(num_gpus=3200, gpus_per_node=8))
    mean, low, high = fitted.failures_per_day()
    assert low < len(log.failures()) / 349.0 < high
    assert high / low > 1.5, "as Poisson counts the interval would be within 16 %"
    assert mean == pytest.approx(1.33, abs=0.03)
    assert len(fitted.departures()) == 2
    assert fitted.mean_repair_hours > 100
    assert fitted.to_dict()["events"]["gpu"] == 93


def test_a_quiet_fit_departs_from_nothing() -> None:
    rng = np.random.default_rng(8)
    log = _log(np.linspace(1, 99, 40), [f"n{node}" for node in rng.integers(0, 16, 40)])
    fitted = fit_rates(log, counts=hardware_counts(num_gpus=128, gpus_per_node=8), accelerator="H100-80GB")
    assert fitted.departures() == ()
    assert fitted.posterior.dispersion == 1.0
