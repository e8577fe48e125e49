"""Writes docs/command-line.md's reference from the commands: `make command-reference`. `--check` compares."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from scraper_pipeline.cli import SECTIONS, main
from scraper_pipeline.settings import project_folder

PAGE = Path(__file__).resolve().parent / "command-line.md"
BEGIN, END = "<!-- commands: begin -->\n", "<!-- commands: end -->\n"
_PROGRAM = "scraper-pipeline"


def reference() -> str:
    """Every command under the heading that help has it under, with all of its options."""
    root = click.Context(main, info_name=_PROGRAM, **main.context_settings)
    lines: list[str] = []
    for section, names in SECTIONS.items():
        lines += [f"### {section}", ""]
        for name in names:
            command = main.get_command(root, name)
            assert command is not None  # noqa: S101 (the group has what it lists)
            lines += _described(command, click.Context(command, parent=root, info_name=name), depth=4)
    return "\n".join(lines)


def _described(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"{'#' * depth} `{context.command_path.removeprefix(f'{_PROGRAM} ')}`", "")
    yield from (f"    {usage}", "")
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        verbatim = paragraph.startswith("\b")
        lines = paragraph.removeprefix("\b").strip("\n").splitlines()
        yield from ([f"    {line.strip()}" for line in lines] if verbatim else [" ".join(lines)])
        yield ""
    if not isinstance(command, click.Group):
        if rows := list(_rows(command, context)):
            yield from ("| option | what it does |", "|---|---|", *rows, "")
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None:
            yield from _described(below, click.Context(below, parent=context, info_name=name), depth + 1)


def _rows(command: click.Command, context: click.Context) -> Iterator[str]:
    for one in command.params:
        if isinstance(one, click.Option) and (record := one.get_help_record(context)):
            option, meaning = (" ".join(text.split()).replace("|", "\\|") for text in record)
            meaning = meaning.replace(f"{project_folder()}/", "")
            yield f"| `{option.removesuffix(' RANGE')}` | {meaning} |"


def write(arguments: list[str]) -> int:
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    written = f"{before}{BEGIN}\n{reference()}\n{END}{after}"
    if "--check" not in arguments:
        PAGE.write_text(written, "utf-8")
        return 0
    if written == text:
        return 0
    print(
        "The reference of docs/command-line.md is not that of the code: run make command-reference",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(write(sys.argv[1:]))
