"""Site files: a team's own runs, and what they taught."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
import pandas as pd

from surrogate.derive import derive_columns
from surrogate.errors import FileFormatError, InputError
from surrogate.files import write_bytes_atomically
from surrogate.schema import INPUT_COLUMNS, validate_runs

SITES_DIR_VARIABLE: Final = "SURROGATE_SITES_DIR"
DEFAULT_SITES_DIR: Final = "sites"
FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePack:
    """A site's own measured runs and what they taught: a small JSON file that others can use.

    Parameters
    ----------
    name : str
        The site; plans with this `source` belong to it.
    family : str
        Publisher family whose habits it starts from; the name itself when it is of no known family.
    runs : DataFrame of n rows
        Input columns of the runs table.
    conditions : bool
        Whether the runs are used: not when they contradict each other so much that predictions without them are better.
    model : str
        The predictor they were assessed with.
    findings : Mapping[str, object]
        What `assess_site` found, in plain JSON.
    """

    name: str
    family: str
    runs: pd.DataFrame
    conditions: bool
    model: str
    findings: Mapping[str, object]


def sites_directory() -> Path:
    """Return where site files are kept: `SURROGATE_SITES_DIR`, else `sites` in the current folder."""
    return Path(os.environ.get(SITES_DIR_VARIABLE) or DEFAULT_SITES_DIR)


def site_file(name: str) -> Path:
    """Return the file of a site, by its name or by a path to the file itself.

    Raises
    ------
    InputError
        If the name cannot be a file's.
    """
    if name.endswith(".json"):
        return Path(name)
    if not name or name != Path(name).name or name.startswith("."):
        raise InputError("site", "must be a plain name or a path ending in .json", name)
    return sites_directory() / f"{name}.json"


def save_site(pack: SitePack, path: Path) -> None:
    """Write a site file, whole or not at all."""
    given = pack.runs[[name for name in INPUT_COLUMNS if name in pack.runs and pack.runs[name].notna().any()]]
    content = {
        "format": FORMAT,
        "name": pack.name,
        "publisher_family": pack.family,
        "conditions": pack.conditions,
        "model": pack.model,
        "findings": dict(pack.findings),
        "runs": orjson.loads(given.to_json(orient="records", double_precision=15)),
    }
    write_bytes_atomically(path, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def load_site(path: Path) -> SitePack:
    """Read a site file.

    Raises
    ------
    FileFormatError
        If it is missing, truncated, or of another version.
    """
    try:
        content = orjson.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise FileFormatError(f"{path}: site format {content['format']}, this version reads format {FORMAT}")
        runs = derive_columns(validate_runs(pd.DataFrame(content["runs"]), str(path)))
        return SitePack(
            name=content["name"],
            family=content["publisher_family"],
            runs=named_runs(runs, content["name"], content["publisher_family"]),
            conditions=content["conditions"],
            model=content["model"],
            findings=content["findings"],
        )
    except FileNotFoundError as error:
        raise FileFormatError(f"{path}: no such site file: make one with `surrogate site add`") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path}: not a site file ({error}): make one with `surrogate site add`") from error


def joined_runs(pack: SitePack, more: pd.DataFrame) -> pd.DataFrame:
    """Return a site's runs and further ones; a run that is there already is replaced."""
    kept = pack.runs[~pack.runs["run_id"].isin(more["run_id"])]
    return derive_columns(pd.concat([kept, more], ignore_index=True))


def named_runs(runs: pd.DataFrame, name: str, family: str) -> pd.DataFrame:
    """Return runs that belong to one site."""
    return runs.assign(
        source=pd.Series(name, index=runs.index, dtype="str"),
        publisher_family=pd.Series(family, index=runs.index, dtype="str"),
    )
