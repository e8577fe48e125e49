"""Which dead letters a command is about: the options that say so, and what they choose."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import ParamSpec, TypeVar

import click

from scraper_pipeline.cli.common import IntRange
from scraper_pipeline.ledger import Ledger, LetterFilter, LetterState

P = ParamSpec("P")
T = TypeVar("T")
_DAY = click.DateTime(["%Y-%m-%d"])


def filter_options(command: Callable[P, T]) -> Callable[P, T]:
    """Options that make up one ``which``, a LetterFilter: everything that is given has to fit."""
    for option in (
        click.option("--limit", type=IntRange(min=1), help="At most so many letters."),
        click.option("--url", "url_part", help="Part of the URL, in either case."),
        click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="A label of the target."),
        click.option("--until", type=_DAY, help="The last day, such as 2026-01-31."),
        click.option("--since", type=_DAY, help="The first day, such as 2026-01-01."),
        click.option(
            "--day", "days", type=_DAY, multiple=True, help="This day; may be given more than once."
        ),
        click.option("--code", "codes", multiple=True, help="This reason; may be given more than once."),
    ):
        command = option(command)
    return command


def read_filter(
    codes: Sequence[str],
    days: Sequence[date],
    since: date | None,
    until: date | None,
    labels: Sequence[str],
    url_part: str | None,
) -> LetterFilter:
    """What these options say. Raises UsageError where that is not clear."""
    pairs = dict(label.partition("=")[::2] for label in labels)
    for label in labels:
        name = label.partition("=")[0]
        if "=" not in label or not name or '"' in name:
            raise click.UsageError(f"--label takes NAME=VALUE, such as topic=prices; not {label!r}")
    if since and until and since > until:
        raise click.UsageError("--since and --until take the first day and the last one, in this order")
    return LetterFilter(
        codes=tuple(codes),
        days=tuple(f"{day:%Y-%m-%d}" for day in days),
        since=f"{since:%Y-%m-%d}" if since else None,
        until=f"{until:%Y-%m-%d}" if until else None,
        labels=pairs,
        url_part=url_part,
    )


def with_known_codes(ledger: Ledger, which: LetterFilter) -> LetterFilter:
    """The filter with its codes in the case that letters have them in; those that no letter has are told."""
    if not which.codes:
        return which
    known = {code.casefold(): code for code in ledger.letters.count(LetterFilter(), LetterState.ALL)}
    unknown = [code for code in which.codes if code.casefold() not in known]
    if unknown and known:
        there_are = ", ".join(known.values())
        click.echo(f"No letter has the code {', '.join(unknown)}; there are {there_are}.", err=True)
    return replace(which, codes=tuple(known.get(code.casefold(), code) for code in which.codes))


def chosen_letters(
    ledger: Ledger, letter_ids: Sequence[int], which: LetterFilter, limit: int | None
) -> list[int]:
    """The letters that are meant, by their ids or by what fits; never all of them by mere omission."""
    if letter_ids and (limit or not which.is_empty):
        raise click.UsageError("Give either ids or filters.")
    if letter_ids:
        if unknown := ledger.letters.unknown(letter_ids):
            raise click.ClickException(
                f"There is no dead letter {', '.join(map(str, unknown))}: nothing was done. See "
                "`scraper-pipeline dead-letters list`."
            )
        return list(dict.fromkeys(letter_ids))
    if which.is_empty:
        raise click.UsageError(
            "Say which letters: by their ids, or by --code, --day, --since, --until, --label or --url."
        )
    return ledger.letters.ids(with_known_codes(ledger, which), limit)
