"""Commits streams of outcomes chunk by chunk, and loads what was stored as a data frame."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import dagster as dg

from scraper_pipeline.ledger import LETTER_COLUMNS, RESULT_COLUMNS, CommitReport, JobOutcome
from scraper_pipeline.resources import LedgerResource, explained_failures
from scraper_pipeline.traces import span

if TYPE_CHECKING:  # slow to import, and loaded with the definitions
    import pandas as pd


class IdempotencyIOManager(dg.ConfigurableIOManager):
    """The only writer of results, dead letters and ``processed_at``, each in the scope of its outcome's account.

    A chunk is committed whole before the next one is asked for, so memory holds one chunk, and a crash loses no more
    than the work on it. What is handed over twice is stored once.
    """

    def handle_output(self, context: dg.OutputContext, obj: Iterable[Sequence[JobOutcome]]) -> None:
        report = CommitReport()
        with explained_failures(), LedgerResource().open() as ledger:
            for chunk in obj:
                for account, outcomes in _by_account(chunk).items():
                    with span("commit_outcomes", jobs=len(outcomes)):
                        report += ledger.of_account(account).outcomes.commit(outcomes)
                parked = report.dead + report.given_up
                context.log.info(
                    f"{report.stored} stored, {parked} parked, {report.resubmitted} to be tried again"
                )
        context.add_output_metadata(dict(asdict(report)))

    def load_input(self, context: dg.InputContext) -> "pd.DataFrame":
        """The rows of ``stored_results`` (one a target, the newest) or of the open ``dead_letters``.

        Covers one partition or a range. ``AssetIn(metadata={"columns": [...]})`` chooses columns; all otherwise.
        """
        import pandas as pd

        is_letters = context.asset_key.path[-1] == "dead_letters"
        available = LETTER_COLUMNS if is_letters else RESULT_COLUMNS
        columns = list((context.definition_metadata or {}).get("columns", available))
        days = list(context.asset_partition_keys)
        with explained_failures(), LedgerResource().open() as ledger:
            if not is_letters and (pruned := ledger.retention.pruned(days)):
                context.log.warning(
                    f"The content of {', '.join(pruned)} was pruned from the ledger; the published files have it."
                )
            read = ledger.progress.read_letters if is_letters else ledger.progress.read_results
            return pd.DataFrame([dict(row) for row in read(days, columns)], columns=pd.Index(columns))


def _by_account(chunk: Sequence[JobOutcome]) -> dict[str, list[JobOutcome]]:
    found: dict[str, list[JobOutcome]] = {}
    for outcome in chunk:
        found.setdefault(outcome.job.account, []).append(outcome)
    return found
