"""Whether the lists of targets can be read, and what is in them today."""

from collections.abc import Sequence
from datetime import date

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.ledger import DEFAULT_ACCOUNT, Target
from scraper_pipeline.target_lists import Duplicate, Rejected, TargetList, TargetListError, load_target_lists

_TARGETS = Subject("targets")
_SHOWN = 3


def check_target_lists(
    location: str, day: date, accounts: Sequence[str] = (DEFAULT_ACCOUNT,)
) -> list[Finding]:
    """A finding for each list at a location: read to its end, as a submission of the day would.

    Each has to be of one of these accounts.
    """
    try:
        return [_check(one, location, day) for one in load_target_lists(location, accounts)]
    except TargetListError as error:
        return [_TARGETS.problem(_sentence(str(error)), "Correct the file, or set SCRAPER_TARGETS.")]


def _check(one: TargetList, location: str, day: date) -> Finding:
    where = f"list {one.name}" if one.is_named else location
    targets, duplicates, rejected = 0, 0, 0
    first: list[Rejected] = []
    try:
        for entry in one.read(day):
            match entry:
                case Target():
                    targets += 1
                case Duplicate():
                    duplicates += 1
                case Rejected():
                    rejected += 1
                    first += [entry] if len(first) < _SHOWN else []
    except TargetListError as error:
        return _TARGETS.problem(_sentence(str(error)), "Correct the list, or set SCRAPER_TARGETS.")
    said = f"{where} has {targets} targets" + (f", {duplicates} more are named twice" if duplicates else "")
    if rejected:
        return _TARGETS.warning(
            f"{said}; {rejected} rows give none: {_told(first)}.",
            "Correct these rows; the others are submitted. `scraper-pipeline plan` shows them all.",
        )
    if not targets:
        return _TARGETS.warning(f"{where} is empty.", "Write a URL into it, or set SCRAPER_TARGETS.")
    return _TARGETS.ok(f"{said}.")


def _told(rejected: Sequence[Rejected]) -> str:
    return "; ".join(f"row {one.line}: {one.reason}" for one in rejected)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
