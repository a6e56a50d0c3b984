"""`surrogate experiment run DIR`: config in, answer in the README."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from surrogate.cli.experiment import experiment_app
from surrogate.errors import FileFormatError, InputError
from surrogate.experiments import run_experiment
from surrogate.experiments.runner import with_answer

MODULE = """
def answer(config, folder):
    return f"{config['word']} in {folder.name}"

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "made_up_experiment.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    place = tmp_path / "question"
    place.mkdir()
    (place / "config.yaml").write_text("experiment: made_up_experiment:answer\nword: yes!\n")
    (place / "README.md").write_text("# Q\n\n<!-- answer -->\n<!-- /answer -->\n\nNotes.\n")
    return place


def test_the_answer_replaces_the_old_one(folder):
    for _ in range(2):
        answer = run_experiment(folder)
    assert answer.markdown == "yes! in question"
    assert (
        folder / "README.md"
    ).read_text() == "# Q\n\n<!-- answer -->\nyes! in question\n<!-- /answer -->\n\nNotes.\n"


def test_a_readme_without_a_place_is_left_alone(folder):
    (folder / "README.md").write_text("# Q\n")
    assert run_experiment(folder).readme is None
    assert (folder / "README.md").read_text() == "# Q\n"


@pytest.mark.parametrize("text", ["", "<!-- answer -->", "<!-- /answer --><!-- answer -->"])
def test_markers_must_be_a_pair_in_order(text):
    assert with_answer(text, "new") is None


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ("experiment: [", FileFormatError, "not YAML"),
        ("- a", FileFormatError, "mapping"),
        ("word: a", InputError, "module:function"),
        ("experiment: no_such_module:f", InputError, "exists"),
        ("experiment: made_up_experiment:missing", InputError, "exists"),
        ("experiment: made_up_experiment:number", InputError, "function"),
    ],
)
def test_bad_configs_are_named_and_leave_the_readme(folder, config, error, words):
    before = (folder / "README.md").read_text()
    (folder / "config.yaml").write_text(config)
    with pytest.raises(error, match=words):
        run_experiment(folder)
    assert (folder / "README.md").read_text() == before


def test_a_folder_without_config_is_an_error(tmp_path):
    with pytest.raises(FileFormatError, match=r"config\.yaml"):
        run_experiment(tmp_path)


def test_the_verb_prints_and_writes(folder):
    result = CliRunner().invoke(experiment_app, ["run", str(folder)])
    assert result.exit_code == 0, result.output
    assert "yes! in question" in result.output and "written into" in result.output
    facts = json.loads(CliRunner().invoke(experiment_app, ["run", str(folder), "--json"]).stdout)
    assert facts["answer"] == "yes! in question"
