"""The document on reliability names tests that exist, so that no failure is taken for prevented by one that is gone."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from scraper_pipeline.settings import project_folder

TESTS = project_folder() / "scraper_pipeline_tests"
DOCUMENT = (project_folder() / "docs" / "reliability.md").read_text("utf-8")
LABELLED = re.compile(r'<a id="(\w+)"></a>(\w+)')


def _rows() -> list[list[str]]:
    """The cells of every row that has a label, in all tables."""
    lines = [line for line in DOCUMENT.splitlines() if line.startswith("| <a id=")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@cache
def _functions(path: Path) -> set[str]:
    """Every function of a module by its name, those of classes and those bound by assignment included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("row", _rows(), ids=lambda row: LABELLED.match(row[0])[2])  # type: ignore[index]
def test_every_failure_names_tests_that_exist(row: list[str]) -> None:
    label, failure, outcome, tests = row
    assert label
    assert failure
    assert outcome
    named = re.findall("`(.+?)`", tests)
    assert named
    for test in named:
        file, _, function = test.partition("::")
        assert (TESTS / file).is_file(), f"there is no {file}"
        assert function.startswith("test_")
        assert function in _functions(TESTS / file), f"{file} has no {function}"


def test_every_failure_has_a_label_of_its_own() -> None:
    labels = [LABELLED.match(row[0]) for row in _rows()]
    assert len(labels) > 40
    assert all(label is not None and label[1] == label[2].lower() for label in labels)
    assert len({label[2] for label in labels if label}) == len(labels)


def test_every_row_of_a_table_of_failures_is_looked_at() -> None:
    tables = DOCUMENT.split("## Failures")[1].split("\n## ")[0]
    lines = [line for line in tables.splitlines() if line.startswith("|")]
    headings = [line for line in lines if line.startswith(("| case |", "|---"))]
    assert len(lines) - len(headings) == len(_rows())
