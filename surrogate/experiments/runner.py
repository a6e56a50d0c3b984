"""Run the experiment of a folder and write its answer into the folder's README.

`config.yaml` names a function as ``experiment: module:function``; it is called with the config and the folder and
returns markdown. The README says between the markers ``<!-- answer -->`` and ``<!-- /answer -->`` what came out last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import yaml

from surrogate.errors import FileFormatError, InputError
from surrogate.files import write_text_atomically

CONFIG_FILE: Final = "config.yaml"
README_FILE: Final = "README.md"
BEGIN: Final = "<!-- answer -->"
END: Final = "<!-- /answer -->"
_KEY: Final = "experiment"

ExperimentFunction = Callable[[Mapping[str, Any], Path], str]
"""Takes the config and the experiment's folder, returns the answer as markdown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentAnswer:
    """What an experiment found."""

    folder: Path
    markdown: str
    readme: Path | None
    """The README that now holds the answer; None where it has no place marked for it."""


def run_experiment(folder: str | Path) -> ExperimentAnswer:
    """Run the experiment of a folder.

    Parameters
    ----------
    folder : str or Path
        Holds `config.yaml`, and `README.md` with the two markers.

    Returns
    -------
    ExperimentAnswer

    Raises
    ------
    FileFormatError
        If the config is missing or is no mapping.
    InputError
        If it names no function, or the function's settings are wrong.
    """
    place = Path(folder)
    config = load_config(place)
    answer = experiment_function(config)(config, place)
    readme = place / README_FILE
    if not readme.is_file():
        return ExperimentAnswer(folder=place, markdown=answer, readme=None)
    text = readme.read_text(encoding="utf-8")
    replaced = with_answer(text, answer)
    if replaced is None:
        return ExperimentAnswer(folder=place, markdown=answer, readme=None)
    write_text_atomically(readme, replaced)
    return ExperimentAnswer(folder=place, markdown=answer, readme=readme)


def load_config(folder: Path) -> dict[str, Any]:
    """Read a folder's `config.yaml`.

    Raises
    ------
    FileFormatError
        If it is missing, no YAML, or no mapping.
    """
    path = folder / CONFIG_FILE
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: not YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(content, dict):
        raise FileFormatError(f"{path}: must be a mapping with the key `{_KEY}`")
    return content


def experiment_function(config: Mapping[str, Any]) -> ExperimentFunction:
    """Return the function that a config names.

    Raises
    ------
    InputError
        If the name is missing, malformed, or nothing callable.
    """
    name = config.get(_KEY)
    module_name, _, attribute = str(name).partition(":")
    if not isinstance(name, str) or not module_name or not attribute:
        raise InputError(_KEY, "must name a function as module:function", name)
    try:
        function = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(_KEY, "must name a function that exists", name, str(error)) from error
    if not callable(function):
        raise InputError(_KEY, "must name a function", name)
    return function  # type: ignore[no-any-return]


def with_answer(readme: str, answer: str) -> str | None:
    r"""Return a README with the answer between its markers; None where the markers are missing or out of order.

    Examples
    --------
    >>> with_answer("# Q\n<!-- answer -->\nold\n<!-- /answer -->\nmore\n", "new")
    '# Q\n<!-- answer -->\nnew\n<!-- /answer -->\nmore\n'
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return None
    return f"{before}{BEGIN}\n{answer.strip()}\n{END}{after}"
