"""The commands as a whole: help, completion and the reference say the same of them, and quickly."""

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import click.testing
import pytest
from click.shell_completion import get_completion_class

from scraper_pipeline.cli import SECTIONS, main
from scraper_pipeline.settings import project_folder

PAGE = project_folder() / "docs" / "command-line.md"
PROGRAMS = Path(sys.executable).parent
WITHOUT_JSON = {"demo", "dev", "sandbox", "receiver", "metrics", "completion"}


def _tree(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by the words that call it."""
    if not isinstance(command, click.Group):
        yield context.command_path, command
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from _tree(below, click.Context(below, parent=context, info_name=name))


def _all() -> dict[str, click.Command]:
    root = click.Context(main, info_name="scraper-pipeline")
    return {path.removeprefix("scraper-pipeline "): command for path, command in _tree(main, root)}


def _sections_of_the_reference() -> dict[str, str]:
    reference = PAGE.read_text("utf-8").split("<!-- commands: begin -->")[1]
    return {part.split("`")[1]: part for part in reference.split("\n####")[1:]}


def test_the_reference_names_every_command_and_every_option_where_it_belongs() -> None:
    told, commands = _sections_of_the_reference(), _all()
    assert set(commands) <= set(told)
    missing = [
        f"{name} {spelling}"
        for name, command in commands.items()
        for one in command.params
        if isinstance(one, click.Option) and not one.hidden
        for spelling in (*one.opts, *one.secondary_opts)
        if spelling not in told[name]
    ]
    assert missing == []


def test_the_reference_is_the_one_that_the_commands_give() -> None:
    reference = runpy.run_path(str(PAGE.with_name("command_reference.py")))["reference"]
    assert f"\n{reference()}\n" in PAGE.read_text("utf-8"), "run: make command-reference"


def test_every_command_that_reports_something_takes_json() -> None:
    takes = {name for name, command in _all().items() if any("--json" in one.opts for one in command.params)}
    assert set(_all()) - takes == WITHOUT_JSON


def test_help_shows_each_command_once_under_its_heading_with_what_it_does() -> None:
    shown = click.testing.CliRunner().invoke(main, ["--help"]).stdout
    for heading, commands in SECTIONS.items():
        part = shown.split(f"{heading}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in part.splitlines()] == list(commands)
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
    summaries = [one.summary for commands in SECTIONS.values() for one in commands.values()]
    assert [one for one in summaries if "," in one] == [], "the script for fish would end them there"


def test_help_and_completion_wait_for_nothing_that_is_slow_to_import() -> None:
    slow = {"dagster", "pandas", "sqlalchemy", "pydantic", "rich"}
    code = f"import sys, scraper_pipeline.cli; print({slow} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.stdout, found.stderr) == ("set()\n", "")


def test_only_the_commands_that_look_into_dagster_wait_for_its_import() -> None:
    looks = ("doctor", "end-lost-runs")
    others = {one.module for part in SECTIONS.values() for name, one in part.items() if name not in looks}
    code = (
        f"import sys; {'; '.join(f'import {module}' for module in others)}; print('dagster' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.stdout, found.stderr) == ("False\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_calls_this_program(shell: str) -> None:
    result = click.testing.CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_scraper_pipeline_completion" in result.stdout
    assert f"_SCRAPER_PIPELINE_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize(
    ("words", "typed", "offered"),
    [
        ([], "de", ["demo", "dev", "dead-letters"]),
        ([], "--v", ["--version"]),
        (["webhooks"], "r", ["register", "remove", "replay", "rotate"]),
        (["dead-letters", "list", "--state"], "", ["open", "discarded", "resolved", "all"]),
        (["doctor"], "--we", ["--webhook-url"]),
    ],
)
def test_commands_options_and_choices_are_offered(words: list[str], typed: str, offered: list[str]) -> None:
    kind = get_completion_class("bash")
    assert kind is not None
    found = kind(main, {}, "scraper-pipeline", "_SCRAPER_PIPELINE_COMPLETE").get_completions(words, typed)
    assert sorted(item.value for item in found) == sorted(offered)


def test_bash_itself_is_served_by_its_script() -> None:
    script = (
        'eval "$(scraper-pipeline completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=2;'
        ' _scraper_pipeline_completion scraper-pipeline; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    found = subprocess.run(
        ["/bin/bash", "-c", script, "bash", "scraper-pipeline", "completion", ""],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
    )
    assert found.stdout.split() == ["bash", "zsh", "fish"], found.stderr
