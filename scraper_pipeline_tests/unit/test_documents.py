"""What the documents name is there: files, anchors, commands and their options, variables, tables and columns."""

import re
import runpy
import shlex
from collections.abc import Iterator

import click
import pytest
import sqlalchemy as sa

from scraper_pipeline.cli import main
from scraper_pipeline.ledger import schema
from scraper_pipeline.sandbox.faults import Faults
from scraper_pipeline.settings import variables
from scraper_pipeline_tests.documents import DOCUMENTS, PAGES, README, ROOT, Document, document

TABLES = document("docs/tables.md")
_each_document = pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
_CALL = re.compile(r"(?:^|[\s/(])scraper-pipeline((?: +[^`\n]*)?)")
_SHELL = ("|", ">", ">>", "&&", ";", "&")
# What Dagster and the stores of objects read themselves, and families of names.
_NOT_OURS = {"DAGSTER_HOME"}


@_each_document
def test_every_link_leads_somewhere(page: Document) -> None:
    assert [link for link in page.links if not _leads_somewhere(page, link)] == []


def _leads_somewhere(page: Document, link: str) -> bool:
    if re.match(r"https?:|mailto:", link):
        return True
    path, _, anchor = link.partition("#")
    target = (page.path.parent / path).resolve() if path else page.path
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in Document(target).anchors


@_each_document
def test_every_command_and_option_exists(page: Document) -> None:
    complaints = []
    for call in _calls(page):
        try:
            _check_call(call)
        except click.UsageError as error:
            complaints.append(f"scraper-pipeline {' '.join(call)}: {error.format_message()}")
    assert complaints == []


def _calls(page: Document) -> Iterator[list[str]]:
    """The arguments of each call of the command: written out, or a span that begins with a subcommand or an option."""
    for line in page.code:
        for arguments in _CALL.findall(line):
            yield _words(arguments)
    subcommands = main.list_commands(_context(main))
    for span in page.spans:
        words = _words(span)
        if words and words[0] in subcommands and any(word.startswith("-") for word in words):
            yield words


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a quotation that ends on the next line
        words = text.split()
    ends = [position for position, word in enumerate(words) if word in _SHELL]
    return words[: ends[0]] if ends else words


def _check_call(words: list[str]) -> None:
    """Raises click's UsageError for a subcommand or an option that there is not."""
    command: click.Command = main
    for position, word in enumerate(words):
        if isinstance(command, click.Group) and not word.startswith("-"):
            if word == "..." or word.isupper():  # `COMMAND`, whatever it may be
                return
            found = command.get_command(_context(command), word.rstrip(".,:"))
            if found is None:
                raise click.UsageError(f"there is no {' '.join(words[: position + 1])}")
            command = found
        elif re.match(r"--?[a-z]", word) and word.partition("=")[0] not in _options(command):
            raise click.UsageError(f"it has no {word}")


def _options(command: click.Command) -> set[str]:
    given = command.get_params(_context(command))
    found = [option for one in given for option in (*one.opts, *one.secondary_opts)]
    return {option for option in found if option.startswith("-")}


@_each_document
def test_every_option_that_stands_alone_is_one_of_some_command(page: Document) -> None:
    named = {span.split()[0].partition("=")[0] for span in page.spans if re.match(r"--[a-z]", span)}
    assert sorted(named - _all_options(main) - _options_of_the_tools()) == []


def _all_options(command: click.Command) -> set[str]:
    options = _options(command)
    if isinstance(command, click.Group):
        context = _context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            options |= _all_options(below) if below else set()
    return options


def _context(command: click.Command) -> click.Context:
    return click.Context(command, **main.context_settings)  # which say how help is asked for


def _options_of_the_tools() -> set[str]:
    """The options of what `make bench`, `make chaos` and their like start, and of the scripts beside the pages."""
    tools = [
        ROOT / "docs",
        ROOT / "benchmarks",
        *(ROOT / "scraper_pipeline_tests" / n for n in ("chaos", "mutations")),
    ]
    return {
        option
        for folder in tools
        for path in folder.glob("*.py")
        for option in re.findall(r'"(--[a-z-]+)"', path.read_text("utf-8"))
    }


@_each_document
def test_every_target_of_make_exists(page: Document) -> None:
    named = {name for line in page.code for name in re.findall(r"(?:^|\$ )make ([a-z-]+)", line)}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert sorted(named - targets) == []


@_each_document
def test_every_variable_is_one_that_is_read(page: Document) -> None:
    named = set(re.findall(r"\b(?:SCRAPER|GEONODE)_[A-Z_]*[A-Z]\b", " ".join(page.code)))
    assert sorted(named - set(variables()) - _NOT_OURS) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_says_at_its_top_whom_it_is_for(page: Document) -> None:
    title, first = (part.strip() for part in page.text.split("\n\n")[:2])
    assert title.startswith("# ")
    assert first.startswith("For ")


def test_the_table_of_settings_names_exactly_the_variables_that_are_read() -> None:
    rows = re.findall(r"^\| `(.+?)` \|", document("docs/settings.md").text, re.MULTILINE)
    assert rows == [*variables(), "DAGSTER_HOME"]


def test_the_table_of_settings_is_the_one_that_the_code_gives() -> None:
    table = runpy.run_path(str(ROOT / "docs" / "settings_table.py"))["table"]
    assert f"\n{table()}\n" in document("docs/settings.md").text, "run: make settings-table"


def test_the_table_of_faults_names_exactly_those_that_there_are() -> None:
    rows = re.findall(r"^\| (`.+?) \|", document("docs/sandbox.md").text, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall("`(.+?)`", row)) == sorted(Faults.model_fields)


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(re.findall(r"\w+", README.prose)) < 5 * 230


@pytest.mark.parametrize("table", schema.metadata.sorted_tables, ids=lambda table: table.name)
def test_the_description_of_a_table_names_exactly_its_columns(table: sa.Table) -> None:
    rows = re.findall(r"^\| (`.+?) \|", TABLES.section(f"## `{table.name}`"), re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall("`(.+?)`", row)) == sorted(table.columns.keys())


def test_every_table_that_is_described_exists() -> None:
    described = re.findall(r"^## `(\w+)`$", TABLES.text, re.MULTILINE)
    assert sorted(described) == sorted(schema.metadata.tables)
