"""The model card: what a predictor is, what it learned from, how good it is, and what it is not for."""

from __future__ import annotations

from collections.abc import Mapping

from surrogate.api.manifest import Manifest


def model_card(manifest: Manifest) -> str:
    """Return the card of a trained predictor as Markdown."""
    data = manifest.data
    files = data.get("files")
    named = ", ".join(map(str, files)) if isinstance(files, list) else "unknown"
    return f"""# {manifest.name}

Predicts seconds per optimizer step, peak memory per accelerator and the risk of running out of it, for the training of
transformer language models. An analytic cost model with coefficients by site, a gated tree residual, conformal
intervals; a learned memory model.

| | |
|---|---|
| trained on | {named} |
| runs | {data.get("rows")} of {data.get("sources")} sources |
| with a step time; out of memory | {data.get("measured")}; {data.get("out_of_memory")} |
| data digest (SHA-256) | {data.get("digest")} |
| commit | {manifest.commit or "not in a git tree"} |
| seed | {manifest.random_state} |
| versions | {_listed({"surrogate": manifest.surrogate_version, **manifest.libraries})} |

## Accuracy

Split: {manifest.split}. Errors are fractions of the measured step time, logarithms natural.

{_table(manifest.metrics)}

## Units

Time in s, memory in bytes, tokens per second and accelerator. `mfu` counts model FLOPs without recomputation, attention
not halved, over the dense peak of the precision.

## Limits

- Steady-state steps only: no evaluation, checkpoints or restarts (see `surrogate forecast`).
- Published runs are mostly tuned runs of well-known stacks. Where `in_domain` is false, the interval is wide for a
  reason.
- Settings that a plan does not give are filled by rule and listed in `imputed`.
"""


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _table(metrics: Mapping[str, float]) -> str:
    if not metrics:
        return "No figures: the training was not evaluated."
    rows = [f"| {name} | {value:.4g} |" for name, value in metrics.items()]
    return "\n".join(["| figure | value |", "|---|---:|", *rows])
