"""Packages that import their public names on first use give every one of them, and nothing else."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest


@pytest.mark.parametrize("package", ["surrogate.api", "surrogate.feasibility", "surrogate.reliability"])
class TestLazyPackages:
    def test_every_public_name_is_there_and_is_no_module(self, package):
        module = import_module(package)
        assert module.__all__
        for name in module.__all__:
            assert not isinstance(getattr(module, name), ModuleType), name

    def test_any_other_name_is_an_attribute_error(self, package):
        with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nobody'"):
            _ = import_module(package).nobody
