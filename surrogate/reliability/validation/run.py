"""The experiment `experiments/goodput_validation`: every case in one table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from surrogate.errors import InputError
from surrogate.reliability.validation.agreement import agreement_cases
from surrogate.reliability.validation.case import CaseResult
from surrogate.reliability.validation.counts import count_cases
from surrogate.reliability.validation.stories import story_cases
from surrogate.reliability.validation.strong import strong_cases


def validate(data: Path, *, replications: int = 200, seed: int = 0) -> tuple[CaseResult, ...]:
    """Compare the model with everything published.

    Parameters
    ----------
    data : Path
        Folder of the tables (`data/reliability` of the project).
    replications, seed : int
        Of the simulations.

    Returns
    -------
    tuple of CaseResult
    """
    return (
        *strong_cases(data),
        *count_cases(data),
        *story_cases(data),
        *agreement_cases(replications=replications, seed=seed),
    )


def run_experiment(config: Mapping[str, object], folder: Path) -> str:
    """Run the experiment and return its table as markdown.

    Parameters
    ----------
    config : mapping
        ``data`` (path relative to ``folder``), ``replications`` and ``seed``.
    folder : Path
        The experiment's own folder.

    Raises
    ------
    InputError
        For a missing or unreadable setting.
    """
    try:
        data, replications, seed = str(config["data"]), int(str(config["replications"])), int(str(config["seed"]))
    except (KeyError, ValueError) as error:
        raise InputError("config", "must give data, replications and seed", str(error)) from error
    return markdown_table(validate(folder / data, replications=replications, seed=seed))


def markdown_table(results: tuple[CaseResult, ...]) -> str:
    """Return the results as a markdown table, and how many gates passed."""
    lines = ["| group | case | predicted | published | verdict | remark |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.group} | {row.case} | {row.predicted} | {row.published} | {row.verdict} | {row.remark} |"
        for row in results
    ]
    gates = [row for row in results if row.verdict in ("pass", "fail")]
    passed = sum(row.verdict == "pass" for row in gates)
    return "\n".join(
        [*lines, "", f"{passed} of {len(gates)} gates pass; {len(results) - len(gates)} rows are no gates."]
    )
