"""A fitted hybrid as files: JSON, npy arrays and XGBoost's UBJSON. Loading never runs code from a file.

``hybrid.json`` holds the format version, parameters, names and the SHA-256 of every other file and of itself, so that a
truncated or altered directory is noticed before anything is predicted from it.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from surrogate.analytic.coefficients import NAMES
from surrogate.errors import ModelDirectoryError
from surrogate.estimators.conformalization import ResidualSpread
from surrogate.estimators.evidence import Evidence
from surrogate.estimators.intervals import ConformalIntervals, ConformalScores
from surrogate.estimators.residual_model import ResidualModel
from surrogate.estimators.site_data import EffectScales, SharedPoints
from surrogate.estimators.site_effects import SiteEffects
from surrogate.features.levels import SiteLevels
from surrogate.features.ratios import FEATURES
from surrogate.files import write_bytes_atomically

FORMAT_VERSION = 5
HEADER = "hybrid.json"
TREES = "residual.ubj"
ARRAYS = "arrays.npz"
_OWN_DIGEST = "sha256_of_header"


def save_state(state: Mapping[str, Any], directory: Path) -> None:
    """Write header, arrays and trees; the header, with everyone's digest, comes last.

    Parameters
    ----------
    state : mapping
        `header` (JSON values), `arrays` (by name, none of objects) and `trees` (UBJSON bytes).
    directory : Path
        Made if it does not exist.
    """
    directory.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **state["arrays"])
    contents = {ARRAYS: buffer.getvalue(), TREES: bytes(state["trees"])}
    header = {
        "format_version": FORMAT_VERSION,
        "coefficients": list(NAMES),
        "features": list(FEATURES),
        **state["header"],
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    header[_OWN_DIGEST] = _digest_of_header(header)
    for name, content in contents.items():
        write_bytes_atomically(directory / name, content)
    write_bytes_atomically(directory / HEADER, json.dumps(header, indent=1, sort_keys=True).encode())


def load_state(directory: Path) -> dict[str, Any]:
    """Read a directory written by `save_state`.

    Raises
    ------
    ModelDirectoryError
        If it is missing, incomplete, altered, or of another version.
    """
    header = _header(directory)
    if header.get("format_version") != FORMAT_VERSION:
        got = header.get("format_version")
        raise ModelDirectoryError(
            f"{directory}: `format_version` must be {FORMAT_VERSION}, got {got!r}: train again with this version"
        )
    if header.get("coefficients") != list(NAMES) or header.get("features") != list(FEATURES):
        raise ModelDirectoryError(
            f"{directory}: made by another version of the analytic model: train again with this version"
        )
    if header.get(_OWN_DIGEST) != _digest_of_header(header):
        raise ModelDirectoryError(f"{directory / HEADER}: altered (its own SHA-256 differs): train again")
    contents = {name: _checked(directory, name, header["sha256"][name]) for name in (ARRAYS, TREES)}
    with np.load(io.BytesIO(contents[ARRAYS]), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return {"header": header, "arrays": arrays, "trees": contents[TREES]}


def _header(directory: Path) -> dict[str, Any]:
    path = directory / HEADER
    try:
        header = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ModelDirectoryError(f"{directory}: no model here ({HEADER} is missing): train one first") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelDirectoryError(f"{path}: not a readable model header ({error}): train again") from error
    if not isinstance(header, dict):
        raise ModelDirectoryError(f"{path}: not a model header: train again")
    return header


def _digest_of_header(header: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything in the header but itself."""
    rest = {name: value for name, value in header.items() if name != _OWN_DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _checked(directory: Path, name: str, digest: str) -> bytes:
    path = directory / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error}): train again") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ModelDirectoryError(f"{path}: truncated or altered (SHA-256 differs from {HEADER}): train again")
    return content


def effects_state(effects: SiteEffects) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of site effects."""
    points = effects.points_
    header = {
        "scales": asdict(effects.scales),
        "points": {
            "population": points.population.tolist(),
            "by_stack": {name: shift.tolist() for name, shift in points.by_stack.items()},
            "by_family": {name: shift.tolist() for name, shift in points.by_family.items()},
        },
    }
    levels = effects.levels_
    arrays = {
        "effects_knobs": effects.knobs_,
        "effects_jacobian": effects.jacobian_.astype(np.float32),
        "effects_residual": effects.residual_,
        "effects_noise_sd": effects.noise_sd_,
        "effects_stack": levels.stack.astype(str),
        "effects_accelerator_family": levels.accelerator_family.astype(str),
        "effects_expert_shape": levels.expert_shape.astype(str),
        "effects_publisher_family": levels.publisher_family.astype(str),
        "effects_release": levels.release.astype(str),
        "effects_year": levels.year,
    }
    return header, arrays


def effects_of(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> SiteEffects:
    """Return site effects from their state; the covariance is conditioned anew."""
    points = header["points"]

    def shifts(name: str) -> dict[str, Any]:
        return {key: np.array(value) for key, value in points[name].items()}

    effects = SiteEffects(EffectScales(**header["scales"]))
    effects.points_ = SharedPoints(
        population=np.array(points["population"]), by_stack=shifts("by_stack"), by_family=shifts("by_family")
    )
    effects.levels_ = SiteLevels(
        stack=arrays["effects_stack"].astype(object),
        accelerator_family=arrays["effects_accelerator_family"].astype(object),
        expert_shape=arrays["effects_expert_shape"].astype(object),
        publisher_family=arrays["effects_publisher_family"].astype(object),
        release=arrays["effects_release"].astype(object),
        year=arrays["effects_year"],
    )
    effects.knobs_ = arrays["effects_knobs"]
    effects.jacobian_ = arrays["effects_jacobian"].astype(np.float64)
    effects.residual_ = arrays["effects_residual"]
    effects.noise_sd_ = arrays["effects_noise_sd"]
    effects.condition()
    return effects


def evidence_state(evidence: Evidence) -> dict[str, Any]:
    """Return the arrays of measured evidence."""
    return {
        "evidence_run_id": evidence.run_id.astype(str),
        "evidence_source": evidence.source.astype(str),
        "evidence_accelerator": evidence.accelerator.astype(str),
        "evidence_family": evidence.publisher_family.astype(str),
        "evidence_knobs": evidence.knobs,
        "evidence_measured_step_time_s": evidence.measured_step_time_s,
        "evidence_predicted_step_time_s": evidence.predicted_step_time_s,
    }


def evidence_of(arrays: Mapping[str, Any]) -> Evidence:
    """Return measured evidence from its arrays."""
    return Evidence(
        run_id=arrays["evidence_run_id"].astype(object),
        source=arrays["evidence_source"].astype(object),
        accelerator=arrays["evidence_accelerator"].astype(object),
        publisher_family=arrays["evidence_family"].astype(object),
        knobs=arrays["evidence_knobs"],
        measured_step_time_s=arrays["evidence_measured_step_time_s"],
        predicted_step_time_s=arrays["evidence_predicted_step_time_s"],
    )


def intervals_state(intervals: ConformalIntervals) -> dict[str, Any]:
    """Return the arrays of conformal scores."""
    state: dict[str, Any] = {}
    for level, scores in intervals.scores.items():
        state[f"scores_{level}"] = scores.score
        state[f"strata_{level}"] = scores.stratum.astype(str)
    for level, centre in intervals.centres.items():
        state[f"centre_{level}"] = np.float64(centre)
    return state


def intervals_of(arrays: Mapping[str, Any]) -> ConformalIntervals:
    """Return conformal intervals from their arrays."""
    levels = [name.removeprefix("scores_") for name in arrays if name.startswith("scores_")]
    return ConformalIntervals(
        scores={
            level: ConformalScores(score=arrays[f"scores_{level}"], stratum=arrays[f"strata_{level}"].astype(object))
            for level in levels
        },
        centres={name.removeprefix("centre_"): float(arrays[name]) for name in arrays if name.startswith("centre_")},
    )


def spread_state(spread: ResidualSpread) -> dict[str, Any]:
    """Return the residual's spread as JSON values."""
    return asdict(spread)


def residual_of(trees: bytes, evidence: Evidence, random_state: int) -> ResidualModel:
    """Return the residual model from its trees and the evidence of its gate."""
    import xgboost

    model = ResidualModel(random_state=random_state)
    booster = xgboost.XGBRegressor()
    booster.load_model(bytearray(trees))
    model.booster_ = booster
    model.evidence_family_, model.evidence_knobs_ = evidence.publisher_family, evidence.knobs
    return model
