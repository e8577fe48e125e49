"""Breakages of rules 1 and 2: claims, POSTs and what their answers prove."""

from scraper_pipeline_tests.mutations.breakage import Breakage, Edit

CLAIMS = "scraper_pipeline/ledger/sending.py"
SUBMISSIONS = "scraper_pipeline/ledger/submissions.py"
SPENDING = "scraper_pipeline/ledger/spending.py"
PLACES = "scraper_pipeline/lifecycle/places.py"
SCHEMA = "scraper_pipeline/ledger/schema.py"
MIGRATION = "scraper_pipeline/ledger/migrations/versions/v0001_first_schema.py"
SUBMITTING = "scraper_pipeline/lifecycle/submission.py"
ERRORS = "scraper_pipeline/scraper_api/errors.py"
_CLAIMING = "scraper_pipeline_tests/integration/ledger/test_claiming.py"
_SPENDING = "scraper_pipeline_tests/integration/ledger/test_spending.py"
_RECORDING = "scraper_pipeline_tests/integration/ledger/test_recording.py"
_SUBMISSION = "scraper_pipeline_tests/integration/lifecycle/test_submission.py"

OTHERS_OF_THE_URL = ".where(same_url, waiting, case((sending, true()), else_=earlier_here))"
ONLY_SENDING = ".where(same_url, sending)"
_ONLY_PLANNED = ".where(same_url, other.c.state == LITERAL[State.PLANNED], earlier_here)"
_UPDATE_CHECKS_STATE = Edit(CLAIMS, ", in_state(State.PLANNED))\n", ")\n")
_CHOICE_CHECKS_STATE = Edit(
    CLAIMS,
    "                in_state(State.PLANNED),\n",
    "                in_state(State.PLANNED, State.ACCEPTED),\n",
)
_CHOICE_LOCKS = Edit(
    CLAIMS,
    "            .limit(limit)\n            .with_for_update(skip_locked=True)\n",
    "            .limit(limit)\n",
)
INDEX_OF_SENDING = (
    Edit(
        SCHEMA,
        '_partial("uq_submissions_sending_url", _c.account, _c.url_hash, where=_sending, unique=True)',
        '_partial("uq_submissions_sending_url", _c.account, _c.url_hash, where=_sending)',
    ),
    Edit(
        MIGRATION,
        """        unique=True,
        sqlite_where=sa.text("state = 'sending'"),""",
        """        sqlite_where=sa.text("state = 'sending'"),""",
    ),
)
_INDEX_OF_ITEMS = (
    Edit(
        SCHEMA,
        'Index("uq_submissions_job_item", _c.job_id, _c.item_key, unique=True)',
        'Index("uq_submissions_job_item", _c.job_id, _c.item_key)',
    ),
    Edit(
        MIGRATION,
        'op.create_index("uq_submissions_job_item", "submissions", ["job_id", "item_key"], unique=True)',
        'op.create_index("uq_submissions_job_item", "submissions", ["job_id", "item_key"])',
    ),
)
RECORD_GUARD = ".where(_row.request_id == acceptance.request_id, in_state(State.SENDING), ~bound_elsewhere)"

CLAIMING = (
    Breakage(
        "a URL is claimed while it is being sent",
        (Edit(CLAIMS, OTHERS_OF_THE_URL, _ONLY_PLANNED),),
        (f"{_CLAIMING}::test_a_url_is_not_sent_for_two_days_at_once",),
    ),
    Breakage(
        "a URL is claimed while it is being sent, with no index against it",
        (
            Edit(CLAIMS, OTHERS_OF_THE_URL, _ONLY_PLANNED),
            *INDEX_OF_SENDING,
        ),
        (f"{_CLAIMING}::test_a_url_is_not_sent_for_two_days_at_once",),
        also_broken="the unique index",
    ),
    Breakage(
        "the index 'one sending row a URL' is dropped",
        INDEX_OF_SENDING,
        (f"{_CLAIMING}::test_the_database_itself_refuses_a_second_sending_row_of_a_url",),
        by_machine=False,
    ),
    Breakage(
        "one claim takes a URL twice",
        (Edit(CLAIMS, OTHERS_OF_THE_URL, ONLY_SENDING),),
        (f"{_CLAIMING}::test_two_targets_of_one_url_are_not_sent_in_one_batch",),
    ),
    Breakage(
        "a claim does not check the state",
        (_UPDATE_CHECKS_STATE, _CHOICE_CHECKS_STATE),
        ("scraper_pipeline_tests/integration/ledger/test_rows_left_alone.py"
         "::test_a_row_that_waits_for_its_job_is_not_claimed_again",),
        also_broken="the check in the choice of rows",
    ),
    Breakage(
        "two claims at once take the same rows",
        (_UPDATE_CHECKS_STATE, _CHOICE_LOCKS),
        ("scraper_pipeline_tests/integration/ledger/test_concurrency.py"
         "::test_rows_that_several_runs_claim_at_once_go_to_one_of_them",),
        by_machine=False,
        also_broken="FOR UPDATE SKIP LOCKED",
        postgres=True,
    ),
    Breakage(
        "a claim uses a request id again",
        (Edit(CLAIMS, 'own_request_id = literal(f"{uuid.uuid4().hex}-"', 'own_request_id = literal("request-"'),),
        (f"{_CLAIMING}::test_each_claim_takes_request_ids_never_used_before",),
    ),
    Breakage(
        "the index 'one live row a target' is dropped",
        (
            Edit(SCHEMA, "_c.target_id, where=_live, unique=True)", "_c.target_id, where=_live)"),
            Edit(
                MIGRATION,
                """        unique=True,
        sqlite_where=sa.text("state != 'superseded'"),""",
                """        sqlite_where=sa.text("state != 'superseded'"),""",
            ),
        ),
        (f"{_CLAIMING}::test_the_database_itself_refuses_a_second_live_row_of_a_target",),
        by_machine=False,
    ),
)  # fmt: skip
ANSWERS = (
    Breakage(
        "a POST is begun after its lease",
        (
            Edit(
                SUBMITTING,
                "client.submit_extract(urls[0], ExtractOptions.from_mapping(options), deadline=deadline)",
                "client.submit_extract(urls[0], ExtractOptions.from_mapping(options))",
            ),
        ),
        (f"{_SUBMISSION}::test_no_post_is_begun_that_can_not_end_inside_its_lease",),
        by_machine=False,
    ),
    Breakage(
        "an answer is recorded whatever its request",
        (Edit(SUBMISSIONS, RECORD_GUARD, ".where(in_state(State.SENDING), ~bound_elsewhere)"),),
        (f"{_RECORDING}::test_a_late_answer_to_an_earlier_request_changes_nothing",),
    ),
    Breakage(
        "an answer is recorded whatever the row's state",
        (
            Edit(
                SUBMISSIONS,
                RECORD_GUARD,
                ".where(_row.request_id == acceptance.request_id, ~bound_elsewhere)",
            ),
        ),
        (f"{_RECORDING}::test_a_late_answer_does_not_rebind_a_row_that_a_sweep_has_bound",),
        by_machine=False,
    ),
    Breakage(
        "a job that is bound elsewhere is recorded",
        (
            Edit(
                SUBMISSIONS,
                RECORD_GUARD,
                ".where(_row.request_id == acceptance.request_id, in_state(State.SENDING))",
            ),
            *_INDEX_OF_ITEMS,
        ),
        (f"{_RECORDING}::test_a_job_is_bound_to_one_request_only",),
        by_machine=False,
        also_broken="the unique index on (job, item)",
    ),
    Breakage(
        "a refusal of the target is not recorded",
        (Edit(SUBMITTING, "        if refused:\n", "        if False:\n"),),
        (f"{_SUBMISSION}::test_a_target_that_the_service_refuses_is_parked_and_the_others_go_on",),
        by_machine=False,
    ),
    Breakage(
        "a cut connection is taken to prove that no job was made",
        (Edit(ERRORS, "return not self.request_sent", "return True"),),
        (f"{_SUBMISSION}::test_a_lost_answer_is_never_followed_by_a_second_post",),
        by_machine=False,
    ),
    Breakage(
        "a server's error is taken to prove that no job was made",
        (Edit(ERRORS, "return 400 <= status < 500 and", "return 400 <= status and"),),
        (f"{_SUBMISSION}::test_a_server_error_proves_nothing_even_where_no_job_was_made",),
        by_machine=False,
    ),
)
BOUNDS = (
    Breakage(
        "claims under a page limit do not wait for each other",
        (Edit(SPENDING, 'if connection.dialect.name == "postgresql":', "if False:"),),
        (f"{_SPENDING}::test_runs_that_claim_at_once_do_not_exceed_a_limit_together",),
        by_machine=False,
        postgres=True,
    ),
    Breakage(
        "a claim counts nothing that was sent since its run began",
        (
            Edit(
                SPENDING,
                "since[begin] = self._pages_committed(connection, begin)",
                "since[begin] = 0",
            ),
        ),
        (f"{_SPENDING}::test_what_others_send_while_a_run_goes_on_is_counted",),
        by_machine=False,
    ),
    Breakage(
        "what was sent counts as a free place until the next look",
        (Edit(PLACES, "self._sent += jobs", "self._sent += 0"),),
        (
            "scraper_pipeline_tests/integration/lifecycle/test_places.py"
            "::test_no_more_jobs_are_sent_than_the_account_has_places_for",
        ),
        by_machine=False,
    ),
)
