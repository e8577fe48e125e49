"""A day's pages as one Parquet file, which is written anew when the day has come to hold other pages."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from scraper_pipeline.ledger import Ledger, PageKey
from scraper_pipeline.publishing.columns import Column, columns_of_day, needed_of_ledger
from scraper_pipeline.publishing.errors import ContentPruned, PublishingError
from scraper_pipeline.publishing.parquet import read_note, write_parquet
from scraper_pipeline.publishing.places import Place

FORMAT = "1"
_ROUNDS = 3  # a day in flight changes all the time; one that is whole hardly ever during a publication


@dataclass(frozen=True)
class Outline:
    """What a day's pages are, short of their content; equal digests mean equal files."""

    rows: int
    targets: int
    columns: tuple[Column, ...]
    digest: str
    accounts: tuple[str, ...]


@dataclass(frozen=True)
class Publication:
    """The published file of a day; ``size`` is in bytes, ``revision`` the ledger's that it shows."""

    day: str
    location: str
    rows: int
    size: int
    columns: tuple[Column, ...]
    changed: bool
    revision: int


def file_of_day(day: str) -> str:
    """The name of a day's file, which readers of hive partitions take the day from."""
    return f"day={day}/pages.parquet"


def outline_of(keys: Iterable[PageKey]) -> Outline:
    """Read the keys of a day's pages, which are in order."""
    digest, labels, accounts = hashlib.sha256(FORMAT.encode()), set[str](), dict[str, None]()
    rows = targets = 0
    target = None
    for key in keys:
        rows += 1
        targets += (key.account, key.target_id) != target
        target = (key.account, key.target_id)
        labels.update(key.labels)
        accounts[key.account] = None
        digest.update(f"{key.job_id} {key.item_key}\n".encode())  # a stored page never changes
    return Outline(rows, targets, columns_of_day(labels), digest.hexdigest(), tuple(accounts))


def publish_pages(ledger: Ledger, place: Place, day: str) -> Publication:
    """Make the published file of a day show the ledger's pages; one that shows them already is left alone.

    If pages came while it was written, it is written once more: of publications at once, the last leaves the newest.
    Raises PublishingError, with the file as it was, if it can't be written or if the ledger holds less than it did.
    """
    changed = False
    for _ in range(_ROUNDS):
        revision = ledger.progress.revision(day)
        publication = _publish_once(ledger, place, day, revision, changed)
        changed = publication.changed
        if ledger.progress.revision(day) == revision:
            break
    return publication


def shows_the_day(ledger: Ledger, place: Place, day: str) -> bool:
    """Whether the published file of a day has every page that the ledger has. Raises PublishingError."""
    with place.opening(file_of_day(day)) as file:
        published = read_note(file) if file is not None else {}
    with ledger.pages.of(day) as pages:
        outline = outline_of(pages.keys())
    return not outline.rows or published.get("digest") == outline.digest


def _publish_once(ledger: Ledger, place: Place, day: str, revision: int, changed: bool) -> Publication:
    name = file_of_day(day)
    with place.opening(name) as file:
        published = read_note(file) if file is not None else {}
    shown = json.loads(published.get("accounts", "[]"))
    if left_out := [account for account in shown if account not in ledger.scope.accounts]:
        raise PublishingError(
            f"{place.location(name)} has pages of the account {', '.join(left_out)}, which nothing names any more: "
            "the file is left as it is. Set SCRAPER_ACCOUNTS_FILE as it was, or remove the file."
        )
    stored = ledger.progress.of(day).stored
    with place.drafting(name) as draft:
        with ledger.pages.of(day) as pages:
            outline = outline_of(pages.keys())
            if outline.targets < stored or (not outline.rows and published.get("rows", "0") != "0"):
                raise PublishingError(
                    f"The ledger no longer has all pages of {day}: {place.location(name)} is left as it is. Remove "
                    "the file to have what is left published."
                )
            is_new = published.get("digest") != outline.digest
            if is_new and pages.lack_content():
                stands = (
                    "is left as it is"
                    if published
                    else "is not there or can't be read, and can't be made anew"
                )
                raise ContentPruned(
                    f"Content of {day} was pruned from the ledger: {place.location(name)} {stands}, and late pages of "
                    "that day are in the ledger alone."
                )
            if is_new:
                note = {"format": FORMAT, "day": day, "rows": str(outline.rows), "digest": outline.digest}
                note["accounts"] = json.dumps(outline.accounts)
                rows = pages.rows(needed_of_ledger(outline.columns))
                write_parquet(draft.path, outline.columns, rows, note)
        if is_new:
            draft.publish()
    return Publication(
        day,
        place.location(name),
        outline.rows,
        place.size(name),
        outline.columns,
        changed or is_new,
        revision,
    )
