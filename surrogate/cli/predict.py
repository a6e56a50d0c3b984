"""`surrogate predict`: step time, memory and risk of plans, or of every row of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surrogate.cli.output import print_json, progress_shown

if TYPE_CHECKING:
    from surrogate.api import Predictor
    from surrogate.api.prediction import Prediction
    from surrogate.cli.prediction_view import Extras
    from surrogate.plan import Plan

PlansArgument = Annotated[
    list[Path] | None, typer.Argument(help="Plans (YAML, JSON) or launch scripts and configurations.")
]
RunsOption = Annotated[Path | None, typer.Option("--runs", help="Predict every row of a .csv or .parquet table.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Where to write the table's predictions (.csv, .parquet).")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Override a key of every plan, as tp=8; without plans, spell one out.", metavar="KEY=VALUE"
    ),
]
SiteOption = Annotated[
    str | None, typer.Option(help="Site whose habits apply: one of `surrogate site`, a source, a publisher family.")
]
AnchorOption = Annotated[
    str | None, typer.Option(help="Measured run to start from: a run_id, or FILE.csv#RUN_ID of your own.")
]
MeasuredOption = Annotated[float | None, typer.Option(help="Measured seconds per step to judge.", metavar="SECONDS")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Say term by term why, and what changes would do.")]
CoverageOption = Annotated[float, typer.Option(help="Probability that the interval holds the measured time.")]
RecordOption = Annotated[bool, typer.Option("--record", help="Store in the ledger, to be matched with the run later.")]
TrackingOption = Annotated[
    str | None, typer.Option("--tracking-uri", help="MLflow store of the ledger [MLFLOW_TRACKING_URI, else mlruns/].")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in SI units.")]

DEFAULT_COVERAGE = 0.9


def predict(  # noqa: PLR0913 - one parameter per option
    plans: PlansArgument = None,
    runs: RunsOption = None,
    output: OutputOption = None,
    overrides: SetOption = None,
    site: SiteOption = None,
    anchor: AnchorOption = None,
    measured: MeasuredOption = None,
    model_dir: ModelDirOption = None,
    explain: ExplainOption = False,
    coverage: CoverageOption = DEFAULT_COVERAGE,
    record: RecordOption = False,
    tracking_uri: TrackingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict step time, throughput, memory and risk of plans, with an interval and the evidence."""
    plan_options = {"--set": overrides, "--anchor": anchor, "--measured": measured, "--explain": explain}
    _check_usage(plans or [], runs, output, {**plan_options, "--record": record}, coverage)
    from surrogate import api

    predictor = api.load_predictor(model_dir)
    if site is not None:
        predictor = api.choose_site(predictor, site)
    if runs is not None and output is not None:
        _predict_table(runs, output, predictor, coverage, as_json=as_json)
        return
    from surrogate.plan import parse_overrides, parse_plan

    given = parse_overrides(overrides or [])
    read = api.read_plans(plans, given) if plans else [parse_plan({}, "--set", given)]
    predictions, extras = _predict_plans(
        read, predictor, anchor, measured, explain=explain, itemize=not as_json, coverage=coverage
    )
    identifiers = _record(read, predictions, predictor, tracking_uri) if record else []
    if as_json:
        items = [item.to_dict() | extra.to_dict() for item, extra in zip(predictions, extras, strict=True)]
        print_json([item | ids for item, ids in zip(items, identifiers or [{}] * len(items), strict=True)])
        return
    from surrogate.cli.prediction_view import print_predictions

    print_predictions(predictions, extras, predictor, coverage=coverage)
    for ids in identifiers:
        typer.echo(f"recorded as {ids['prediction_id']}")


def _check_usage(
    plans: Sequence[Path],
    runs: Path | None,
    output: Path | None,
    plan_options: dict[str, object],
    coverage: float,
) -> None:
    """Raise a usage error unless plans or a table with its output are given, and options fit."""
    described = bool(plans or plan_options["--set"])
    if bool(plans) if runs is not None else not described:
        raise typer.BadParameter("give either plans (files, or --set values), or --runs FILE with -o FILE")
    if (runs is None) != (output is None):
        raise typer.BadParameter("--runs FILE and -o FILE belong together")
    if runs is not None:
        misplaced = [name for name, value in plan_options.items() if value]
        if misplaced:
            raise typer.BadParameter(f"{', '.join(misplaced)} is for plans, not for --runs")
    if plan_options["--record"] and coverage != DEFAULT_COVERAGE:
        raise typer.BadParameter("--record keeps the 90 % interval: leave --coverage out")
    if plan_options["--measured"] is not None and len(plans) > 1:
        raise typer.BadParameter("--measured judges one plan")


def _predict_plans(  # noqa: PLR0913
    plans: Sequence[Plan],
    predictor: Predictor,
    anchor: str | None,
    measured: float | None,
    *,
    explain: bool,
    itemize: bool,
    coverage: float,
) -> tuple[list[Prediction], list[Extras]]:
    from surrogate import api
    from surrogate.api.memory_account import account_for_memory
    from surrogate.cli.prediction_view import Extras
    from surrogate.plan import plans_to_frame

    frame = plans_to_frame(plans)
    known = api.load_anchor(anchor, predictor) if anchor is not None else None
    used = predictor if known is None else known.predictor
    predicted = used.predict_frame(frame, coverage=coverage, with_evidence=True)
    ratios = known.ratios(predicted) if known is not None else [None] * len(plans)
    reference = f"the measured run {known.run_id}" if known is not None else ""
    rows = [frame.iloc[[row]] for row in range(len(frame))]
    explanations = [api.explain(row, used) if explain else None for row in rows]
    accounts = [account_for_memory(row, used, with_stages=False) if itemize and not explain else None for row in rows]
    extras = [
        Extras(
            memory=account if explanation is None else explanation.memory,
            ratio=ratio,
            judgement=api.judge(row, measured, used, reference=reference) if measured is not None else None,
            explanation=explanation,
        )
        for row, ratio, explanation, account in zip(rows, ratios, explanations, accounts, strict=True)
    ]
    return api.collect_predictions(frame, predicted, used), extras


def _predict_table(runs: Path, output: Path, predictor: Predictor, coverage: float, *, as_json: bool) -> None:
    from surrogate import api

    with progress_shown(quiet=as_json) as tell:
        outcome = api.predict_table(
            runs, output, predictor, coverage=coverage, progress=lambda rows: tell(f"{rows:,} rows predicted")
        )
    facts = {"output": str(output), "rows": outcome.rows, "bad_rows": outcome.bad_rows, "model": predictor.name}
    if as_json:
        print_json(facts)
    else:
        bad = f", {outcome.bad_rows} of them bad (column `error` says why)" if outcome.bad_rows else ""
        typer.echo(f"{output}: {outcome.rows} rows{bad}\npredictor: {predictor.describe()}")
    if outcome.bad_rows:
        raise typer.Exit(1)


def _record(
    plans: Sequence[Plan], predictions: Sequence[Prediction], predictor: Predictor, tracking_uri: str | None
) -> list[dict[str, str]]:
    from surrogate.tracking import record_predictions

    return [{"prediction_id": name} for name in record_predictions(plans, predictions, predictor, tracking_uri)]
