"""What the README and the documents say of the code is so."""

import re
import subprocess
import sys

import pytest
import sqlalchemy as sa
from click import Group

from scraper_pipeline.cli import main as command
from scraper_pipeline.ledger import schema
from scraper_pipeline.settings import project_folder, variables

ROOT = project_folder()
README = (ROOT / "README.md").read_text("utf-8")
TABLES = (ROOT / "docs" / "tables.md").read_text("utf-8")


def _first_cells(text: str) -> list[str]:
    return [
        name
        for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
        for name in re.findall("`(.+?)`", row)
    ]


def test_the_table_of_settings_names_exactly_the_variables_that_are_read() -> None:
    table = README.split("<!-- settings: begin -->")[1].split("<!-- settings: end -->")[0]
    assert _first_cells(table) == [*variables(), "DAGSTER_HOME"]


def test_the_table_of_settings_is_the_one_that_the_code_gives() -> None:
    script = ROOT / "docs" / "settings_table.py"
    found = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_table_of_commands_names_exactly_the_commands() -> None:
    assert isinstance(command, Group)
    table = README.split("## Commands")[1].split("\n## ")[0]
    assert sorted(name.split()[0] for name in _first_cells(table)) == sorted(command.commands)


@pytest.mark.parametrize("document", ["README.md", "docs/design.md", "docs/tables.md"])
def test_every_file_that_a_document_links_to_is_there(document: str) -> None:
    path = ROOT / document
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize(
    "table", [schema.results, schema.dead_letters, schema.submissions], ids=lambda t: t.name
)
def test_the_description_of_a_table_names_exactly_its_columns(table: sa.Table) -> None:
    section = TABLES.split(f"\n## `{table.name}`")[1].split("\n## ")[0]
    assert sorted(_first_cells(section)) == sorted(column.name for column in table.columns)
