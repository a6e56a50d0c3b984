"""Published figures: every strong case, the predicted counts, and the experiment that tabulates them."""

from __future__ import annotations

from pathlib import Path

import pytest

from surrogate.errors import FileFormatError, InputError
from surrogate.reliability.validation import run_experiment
from surrogate.reliability.validation.case import CaseResult, read_published_cases, read_table
from surrogate.reliability.validation.counts import count_cases, llama3_interruptions, predict_from_log, trace_halves
from surrogate.reliability.validation.stories import story_cases
from surrogate.reliability.validation.strong import PREDICTIONS

PROJECT = Path(__file__).parents[2]
DATA = PROJECT / "data" / "reliability"
CASES = read_published_cases(DATA / "validation_cases.csv")


@pytest.mark.parametrize("identity", [name for name, case in CASES.items() if case.gate])
def test_a_first_hand_case_is_met(identity: str) -> None:
    case = CASES[identity]
    assert PREDICTIONS[identity]() == pytest.approx(case.published, rel=case.relative_tolerance), case.citation


@pytest.mark.parametrize(
    ("identity", "by_hand"),
    [
        ("V01", 24 / (2048 * 6.5e-3)),
        ("V02", 24 / (16384 * 6.5e-3)),
        ("V03", 47.7 * 24 / 128),
        ("V04", 1 - 2048 * 6.5e-3 / 86400 * (300 + 150)),
        ("V06", 42 + 21 + 42),
        ("V11", 530e9 * 12 / 2.5e9 / 60),
    ],
)
def test_a_second_hand_case_is_the_formula_worked_by_hand_and_close_to_the_quote(identity: str, by_hand: float) -> None:
    assert PREDICTIONS[identity]() == pytest.approx(by_hand, rel=1e-9)
    assert by_hand == pytest.approx(CASES[identity].published, rel=CASES[identity].relative_tolerance)


def test_every_published_case_has_a_prediction() -> None:
    assert set(PREDICTIONS) == set(CASES)


def test_llama3_interruptions_lie_inside_the_interval_from_other_clusters() -> None:
    mean, low, high = llama3_interruptions()
    assert low <= 419 <= high
    assert mean == pytest.approx(419, rel=0.3)
    assert high / low < 6, "an interval that says nothing would be no feat"


def test_the_second_half_of_the_trace_lies_inside_the_widened_interval_and_outside_the_poisson_one() -> None:
    first, second = trace_halves(DATA)
    _, low, high, dispersion = predict_from_log(first, second.window.days)
    assert low <= len(second) <= high
    assert 8 < dispersion < 25
    assert high - low < 2 * len(first)
    poisson = next(row for row in count_cases(DATA) if "Poisson process" in row.case)
    assert poisson.remark.startswith("outside")


def test_no_gate_fails_and_every_story_is_told() -> None:
    rows = (*count_cases(DATA), *story_cases(DATA))
    assert not [row for row in rows if row.verdict in ("fail", "outside")]
    told = " ".join(row.case for row in rows)
    assert all(
        name in told for name in ("Llama 3", "byterobust", "BLOOM", "OPT", "ant-", "DLRover", "Clockwork", "RSC")
    )


def _story(word: str) -> CaseResult:
    return next(row for row in story_cases(DATA) if word in row.case)


@pytest.mark.parametrize(
    ("word", "predicted"),
    [
        ("BLOOM", "0.980"),
        ("RSC-1", "0.890-0.960 without stall, 0.817-0.884 with 5 min"),
        ("100,000", "0.941"),
        ("byterobust-moe", "0.987"),
        ("ant-before", "0.765"),
    ],
)
def test_a_story_is_predicted_as_worked_out_in_the_reference(word: str, predicted: str) -> None:
    assert _story(word).predicted.startswith(predicted)


def test_the_experiment_prints_one_table_twice_the_same() -> None:
    folder = PROJECT / "experiments" / "goodput_validation"
    config = {"data": "../../data/reliability", "replications": 20, "seed": 3}
    table = run_experiment(config, folder)
    assert table == run_experiment(config, folder)
    assert "| fail |" not in table
    assert "gates pass" in table


def test_bad_settings_and_missing_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="replications"):
        run_experiment({"data": "x"}, tmp_path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(FileFormatError, match="no rows"):
        read_table(tmp_path / "empty.csv")
