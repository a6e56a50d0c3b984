"""What the layout promises: units in one place, small files, no local paths, tests that mirror the packages."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import surrogate

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "surrogate"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 400
MAX_BODY_LINES = 40
MAX_FILE_BYTES = 5_000_000
UNIT_FACTORS = {1e9, 1e12, 1e15, 2.0**30, 2.0**40}
WORTH_READING = re.compile(r"[eE]\+?(9|12|15)\b|\*\*|\d[\d_]{9,}")
TEXT_SUFFIXES = {".md", ".py", ".toml", ".yaml", ".csv", ".txt", ".json", ".html", ""}
LOCAL_PATHS = re.compile(r"(?<![\w.])/(tmp|root|home|work|mnt|Users)/|\.\./shared|(extra-)?index-url")
UNSAFE = {("pickle", "load"), ("pickle", "loads"), ("joblib", "load"), ("yaml", "unsafe_load"), ("marshal", "load")}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _unit_factors(source: str) -> list[str]:
    """Return the lines of `source` that write a unit factor as a number."""
    if not WORTH_READING.search(source):
        return []
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    found = []
    for token, after, power in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.type != tokenize.NUMBER:
            continue
        value = ast.literal_eval(token.string)
        is_binary = value in (2.0, 1024.0) and after.string == "**" and power.string in ("3", "4", "30", "40")
        if value in UNIT_FACTORS or is_binary:
            found.append(f"{token.start[0]}: {token.line.strip()}")
    return found


def test_unit_factors_are_found_where_they_are_written() -> None:
    assert _unit_factors("a = b * 1e9\nc = 1024**3\nd = 2 ** 30\ne = 1_000_000_000_000\n") != []
    assert len(_unit_factors("a = b * 1e9\nc = 1024**3\nd = 2 ** 30\ne = 1_000_000_000_000\n")) == 4
    assert _unit_factors("a = 1e-9\nb = 2**20  # not 1e9\nc = 'of 1e12'\n") == []


def test_units_are_converted_in_units_only() -> None:
    found = {_name(path): _unit_factors(path.read_text()) for path in MODULES if path.name != "units.py"}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_modules_are_small() -> None:
    lengths = {_name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{_name(path)}: {node.name}": _body_lines(node)
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_BODY_LINES} == {}


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length of a function without its signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_packages_only_reexport() -> None:
    doors = [path for path in MODULES if path.name == "__init__.py"]
    assert [_name(path) for path in doors for node in _tree(path).body if not _reexports(node)] == []


def _reexports(node: ast.stmt) -> bool:
    """Tell whether a statement imports a name, now or when it is first used (PEP 562), or for the type checker only."""
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__getattr__", "__dir__")
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Expr | ast.Assign | ast.AnnAssign)


def test_the_library_never_prints() -> None:
    found = [
        f"{_name(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert found == []


def test_loading_runs_no_code() -> None:
    found = [
        f"{_name(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in UNSAFE
    ]
    assert found == []


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == surrogate.__version__
    assert f"## {surrogate.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_catch_all_module() -> None:
    assert [_name(path) for path in MODULES if path.stem in ("utils", "helpers", "common", "misc")] == []


def test_tests_mirror_packages() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and list(path.glob("test_*.py"))}
    assert packages - tested == set()


def test_test_files_have_names_of_their_own() -> None:
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


def test_nothing_names_this_machine() -> None:
    found = []
    for path in _tracked():
        if path.suffix not in TEXT_SUFFIXES or _name(path).startswith((".ci/", "tests/")):
            continue
        lines = path.read_text(errors="replace").splitlines()
        found += [f"{_name(path)}:{number}" for number, line in enumerate(lines, 1) if LOCAL_PATHS.search(line)]
    assert found == []


def test_no_large_files() -> None:
    assert [_name(path) for path in _tracked() if path.stat().st_size > MAX_FILE_BYTES] == []


def test_local_store_is_not_committed() -> None:
    assert [_name(path) for path in _tracked() if path.parts[len(ROOT.parts)] == "mlruns"] == ["mlruns/.gitkeep"]


def test_links_of_the_documents_lead_somewhere() -> None:
    broken = []
    documents = [path for path in _tracked() if path.suffix == ".md"]
    for path in documents:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
            if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists():
                broken.append(f"{_name(path)} -> {target}")
    assert broken == []


def test_the_index_names_every_document() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [path.name for path in (ROOT / "docs").glob("*.md") if f"]({path.name})" not in index] == ["README.md"]


def test_verbs_are_in_the_readme() -> None:
    from surrogate.cli.app import VERBS

    text = (ROOT / "README.md").read_text()
    assert [verb for verb in VERBS if f"surrogate {verb}" not in text] == []
