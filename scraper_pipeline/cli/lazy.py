"""Commands that are imported when they are called: a shell that completes a name must not wait for Dagster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True)
class Deferred:
    """A command by the module and the name that it has there, and what help and completion say of it meanwhile.

    The summary has no comma: the script for fish would end it there.
    """

    module: str
    attribute: str
    summary: str

    def load(self) -> click.Command:
        command = getattr(import_module(self.module), self.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.module}.{self.attribute} is no command")
        return command


class LazyGroup(click.Group):
    """A group whose commands stand under headings, in the order in which they are given."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, Deferred]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self._deferred = {name: one for section in sections.values() for name, one in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._deferred)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        deferred = self._deferred.get(cmd_name)
        if deferred is None:
            return None
        try:
            return deferred.load()
        except Exception as error:  # of any kind, since to name the one that is meant takes an import
            from scraper_pipeline.settings import SettingsError  # not above: it alone takes half a second

            # The days are read from the settings once Dagster's part is imported.
            if isinstance(error, SettingsError):
                raise click.ClickException(str(error)) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(len(name) for name in self._deferred)
        for heading, commands in self.sections.items():
            rows: Sequence[tuple[str, str]] = [
                (name.ljust(widest), one.summary) for name, one in commands.items()
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=one.summary)
            for name, one in self._deferred.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)
