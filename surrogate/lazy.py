"""Packages whose modules are imported when one of their names is first used, so that a verb pays for what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(package: str, names_by_module: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` (PEP 562) of a package that imports its public names on first use.

    Parameters
    ----------
    package : str
        Its `__name__`.
    names_by_module : Mapping[str, Sequence[str]]
        The public names by the package's module that defines them. No name may be a module's own: once imported, that
        module would stand in its place.
    """
    module_by_name = {name: module for module, names in names_by_module.items() for name in names}

    def first_use(name: str) -> object:
        if name not in module_by_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{module_by_name[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return first_use
