"""Breakages of rules 3, 4 and 6: news, settlement, and jobs that were given up."""

from scraper_pipeline_tests.mutations.breakage import Breakage, Edit
from scraper_pipeline_tests.mutations.sending import MIGRATION, SCHEMA

OUTCOMES = "scraper_pipeline/ledger/outcomes.py"
CLAIMS = "scraper_pipeline/ledger/claims.py"
NEWS = "scraper_pipeline/ledger/news.py"
INBOX = "scraper_pipeline/ledger/inbox.py"
POLLING = "scraper_pipeline/lifecycle/polling.py"
VERDICTS = "scraper_pipeline/lifecycle/verdicts.py"
_LEDGER = "scraper_pipeline_tests/integration/ledger"

_LOCK_UNSTAMPED = Edit(
    OUTCOMES,
    "if row.processed_at is None and row.given_up_at is None",
    "if row.given_up_at is None",
)
_INSERT_IF_ABSENT = Edit(
    OUTCOMES,
    'self.insert(results).on_conflict_do_nothing(index_elements=["job_id", "item_key"])',
    "self.insert(results)",
)
_MOVE_GUARD = Edit(
    OUTCOMES, ".where(self.among(_row.id, row_ids), guard)", ".where(self.among(_row.id, row_ids))"
)

NEWS_OF_JOBS = (
    Breakage(
        "news of an unbound job is settled",
        (
            Edit(CLAIMS, "                is_mine,\n", ""),
        ),
        (f"{_LEDGER}/test_news.py::test_news_of_a_job_that_no_row_is_bound_to_waits_and_is_settled_once_one_is",),
    ),
    Breakage(
        "a redelivered event clears processed_at",
        (
            Edit(
                NEWS,
                'changes["given_up_at"] = None\n',
                'changes["given_up_at"] = changes["processed_at"] = None\n',
            ),
        ),
        (f"{_LEDGER}/test_news.py::test_a_redelivered_event_changes_nothing_once_its_job_is_processed",),
    ),
    Breakage(
        "a redelivered webhook clears processed_at",
        (
            Edit(INBOX, '"given_up_at": None,\n', '"given_up_at": None, "processed_at": None,\n'),
            Edit(INBOX, "            where=or_(is_first, is_given_up),  # a mere duplicate writes nothing\n", ""),
        ),
        (f"{_LEDGER}/test_inbox.py::test_a_late_delivery_never_clears_processed_at",),
        also_broken="that a duplicate writes nothing",
    ),
    Breakage(
        "late news does not reopen a given-up job",
        (Edit(NEWS, "reopen=True)", "reopen=False)"),),
        (f"{_LEDGER}/test_giving_up.py::test_a_page_that_comes_after_all_is_stored_and_resolves_the_letter",),
    ),
    Breakage(
        "a late webhook does not reopen a given-up job",
        (
            Edit(
                INBOX,
                '                "given_up_at": None,\n                "available_at": case((is_given_up, '
                "new.available_at), else_=_event.available_at),\n",
                "",
            ),
        ),
        (f"{_LEDGER}/test_inbox.py::test_a_given_up_job_is_reopened_even_by_a_duplicate",),
    ),
)  # fmt: skip
SETTLEMENT_OF_JOBS = (
    Breakage(
        "the stamp is committed before the outcome",
        (
            Edit(
                OUTCOMES,
                "            with self.writing() as connection:\n                report += self._commit(",
                "            with self.writing() as connection:\n"
                "                ended = [o.job.job_id for o in chunk if isinstance(o.verdict, Ended)]\n"
                "                stamp = update(processed_events).where(_event.job_id.in_(ended))\n"
                "                connection.execute(stamp.values(processed_at=self.clock()))\n"
                "            with self.writing() as connection:\n                report += self._commit(",
            ),
            _LOCK_UNSTAMPED,
        ),
        (f"{_LEDGER}/test_atomicity.py::test_a_transition_happens_whole_or_not_at_all",),
        also_broken="the check for the stamp",
    ),
    Breakage(
        "receipt is taken for completion: a claim stamps",
        (
            Edit(CLAIMS, "claimed_by=token,", "claimed_by=token, processed_at=now,"),
            _LOCK_UNSTAMPED,
        ),
        (f"{_LEDGER}/test_news.py::test_a_claim_that_was_never_committed_is_open_again_after_its_lease",),
        also_broken="the check for the stamp",
    ),
    Breakage(
        "the next attempt is planned in a transaction of its own",
        (
            Edit(
                OUTCOMES,
                "        self._plan_next_attempts(connection, moves.superseded, now)\n",
                "        _LATER.extend(moves.superseded)\n",
            ),
            Edit(
                OUTCOMES,
                "                report += self._commit(connection, chunk)\n",
                "                report += self._commit(connection, chunk)\n"
                "            with self.writing() as connection:\n"
                "                self._plan_next_attempts(connection, _LATER, self.clock())\n"
                "            _LATER.clear()\n",
            ),
            Edit(OUTCOMES, "_row, _event, _job,", "_LATER: list[Any] = []\n_row, _event, _job,"),
        ),
        (f"{_LEDGER}/test_atomicity.py::test_a_transition_happens_whole_or_not_at_all",),
        by_machine=False,
    ),
    Breakage(
        "results are not unique",
        (
            _INSERT_IF_ABSENT,
            Edit(SCHEMA, '    PrimaryKeyConstraint("job_id", "item_key", name="pk_results"),\n', ""),
            Edit(
                MIGRATION,
                '        sa.PrimaryKeyConstraint("job_id", "item_key", name="pk_results"),\n',
                "",
            ),
        ),
        (f"{_LEDGER}/test_settling.py",),
        by_machine=False,
        also_broken="primary key and ON CONFLICT together; a claim and the stamp keep a job from being settled twice",
    ),
    Breakage(
        "a result that is there already is an error",
        (_INSERT_IF_ABSENT,),
        (f"{_LEDGER}/test_settling.py",),
        by_machine=False,
    ),
    Breakage(
        "rows that are no longer accepted are moved",
        (
            _MOVE_GUARD,
            Edit(
                OUTCOMES,
                "                if row.state == State.ACCEPTED or is_given_up:\n",
                "                if True:\n",
            ),
            Edit(
                OUTCOMES,
                "            elif row.state == State.ACCEPTED:\n                self._decide_failed",
                "            elif not is_given_up:\n                self._decide_failed",
            ),
        ),
        (f"{_LEDGER}/test_settling.py",),
        also_broken="the decision on locked rows and the guard of the update",
        by_machine=False,
    ),
    Breakage(
        "an answer counts although its claim was lost",
        (
            Edit(
                OUTCOMES,
                "if holders.get(outcome.job.job_id) == outcome.job.claim]",
                "if outcome.job.job_id in holders]",
            ),
        ),
        (f"{_LEDGER}/test_settling.py", f"{_LEDGER}/test_giving_up.py"),
    ),
    Breakage(
        "a failure that may be temporary is final",
        (
            Edit(
                OUTCOMES,
                "elif failure.retryable and attempts < self.resubmission.max_attempts:",
                "elif failure.retryable and attempts < 0:",
            ),
        ),
        (f"{_LEDGER}/test_settling.py",),
    ),
)
GIVING_UP = (
    Breakage(
        "completed does not beat given up",
        (
            Edit(
                OUTCOMES,
                "                if row.state == State.ACCEPTED or is_given_up:\n",
                "                if row.state == State.ACCEPTED:\n",
            ),
            Edit(
                OUTCOMES,
                "perhaps the only one\n                if is_given_up:\n",
                "perhaps the only one\n                if False:\n",
            ),
        ),
        (f"{_LEDGER}/test_giving_up.py",),
    ),
    Breakage(
        "the letter of a row that is stored after all stays open",
        (Edit(OUTCOMES, "for row in moves.reopened:", "for row in []:"),),
        (f"{_LEDGER}/test_giving_up.py",),
    ),
    Breakage(
        "giving up moves rows that do not wait",
        (
            _MOVE_GUARD,
            Edit(
                OUTCOMES,
                "            if row.state == State.ACCEPTED:\n                moves.given_up",
                "            if row.state != State.STORED:\n                moves.given_up",
            ),
        ),
        (f"{_LEDGER}/test_rows_left_alone.py"
         "::test_a_job_that_is_given_up_once_more_leaves_the_attempt_that_followed_it_alone",),
        also_broken="the guard of the update",
    ),
    Breakage(
        "a poll ends the watch over a job that was given up while it looked",
        (
            Edit(POLLING, "now + WATCH_INTERVAL  # it may have been given up while it was looked at", "None"),
        ),
        ("scraper_pipeline_tests/integration/lifecycle/test_polling.py"
         "::test_a_job_that_is_given_up_while_a_poll_looks_at_it_stays_under_watch",),
    ),
    Breakage(
        "one 404 is enough to call a job lost",
        (
            Edit(
                VERDICTS,
                "if job.missing_since is not None and is_past(ledger, job.missing_since, policy.lost_grace):",
                "if True:",
            ),
        ),
        ("scraper_pipeline_tests/integration/lifecycle/test_settlement.py::test_a_short_spell_of_404_is_waited_out",),
    ),
)  # fmt: skip
