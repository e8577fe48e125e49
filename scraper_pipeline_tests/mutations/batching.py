"""Breakages of what the rules say of batches."""

from scraper_pipeline_tests.mutations.breakage import MACHINE, Breakage, Edit
from scraper_pipeline_tests.mutations.resolving import CANDIDATES, RESUBMITTING
from scraper_pipeline_tests.mutations.sending import (
    CLAIMS,
    INDEX_OF_SENDING,
    ONLY_SENDING,
    OTHERS_OF_THE_URL,
    RECORD_GUARD,
    SUBMISSIONS,
)

BULK = "scraper_pipeline/lifecycle/bulk.py"
SUBMITTING = "scraper_pipeline/lifecycle/submission.py"
OUTCOMES = "scraper_pipeline/ledger/outcomes.py"
CLAIMED_JOBS = "scraper_pipeline/ledger/claims.py"
_LEDGER = "scraper_pipeline_tests/integration/ledger"
_DOUBTFUL = "scraper_pipeline_tests/integration/lifecycle/test_doubtful_results.py"
_BATCHES = "scraper_pipeline_tests/integration/lifecycle/test_batches.py"

_FIRST_OF_REQUEST = """.where(
                    _row.id.in_(
                        select(other.c.id)
                        .where(other.c.request_id == acceptance.request_id, other.c.state == State.SENDING)
                        .limit(1)
                    ),
                    ~bound_elsewhere,
                )"""
_ROW_BY_ROW = """            if all(acceptance.kind != Kind.BATCH for acceptance in accepted):
                with self.writing() as connection:
                    return self._bind(connection, accepted, first_look_at)
            moved = [1]
            while moved[-1]:
                with self.writing() as connection:
                    moved.append(self._bind(connection, accepted, first_look_at))
            return sum(moved) - 1
"""


def _of_batches(name: str, edit: Edit, *tests: str, by_machine: bool = True) -> Breakage:
    return Breakage(
        name,
        (edit,),
        tuple(test if "::" in test or test == MACHINE else f"{_BATCHES}::{test}" for test in tests),
        by_machine,
    )


BATCHES = (
    _of_batches(
        "items are matched to rows by their position",
        Edit(
            OUTCOMES,
            "items = {item.item_key: item.result for item in verdict.items}",
            "items = {r.item_key: i.result for r, i in zip(rows, reversed(verdict.items), strict=False)}",
        ),
        "test_each_url_has_an_outcome_of_its_own_and_only_what_may_succeed_goes_out_again",
    ),
    _of_batches(
        "the status of a batch decides about its items",
        Edit(BULK, 'if item.status != "completed":', 'if self._whole.status != "completed":'),
        "test_each_url_has_an_outcome_of_its_own_and_only_what_may_succeed_goes_out_again",
    ),
    _of_batches(
        "a row without an item keeps its job open",
        Edit(
            OUTCOMES,
            "result = _INVALID if row.item_key in verdict.invalid else _MISSING",
            "continue",
        ),
        "test_an_item_that_is_missing_is_tried_again_after_every_page_was_read",
    ),
    _of_batches(
        "a row whose item may be on a later page counts as missing",
        Edit(
            OUTCOMES,
            "                if isinstance(verdict, Part):\n                    continue",
            "                if False:\n                    continue",
        ),
        "test_a_page_that_fails_leaves_what_was_read_and_nothing_final",
    ),
    _of_batches(
        "a part of the results stamps the job",
        Edit(OUTCOMES, "if isinstance(o.verdict, Ended)}", "if isinstance(o.verdict, Ended | Part)}"),
        "test_a_page_that_fails_leaves_what_was_read_and_nothing_final",
    ),
    _of_batches(
        "results are read before the batch is at rest",
        Edit(BULK, "if not whole.is_at_rest:", "if False:"),
        "test_no_page_content_moves_before_the_batch_has_ended",
    ),
    _of_batches(
        "a killed reading begins anew",
        Edit(
            BULK,
            "self._pages_read = self._began_at = self.job.pages_read",
            "self._pages_read = self._began_at = 0",
        ),
        "test_a_run_that_is_killed_between_pages_is_taken_up_where_it_stopped",
        by_machine=False,
    ),
    _of_batches(
        "a URL that the service named invalid is tried again",
        Edit(OUTCOMES, "_INVALID if row.item_key in verdict.invalid else _MISSING", "_MISSING"),
        "test_a_batch_that_left_out_invalid_urls_is_still_ours",
    ),
    _of_batches(
        "any batch of the time is taken for ours",
        Edit(CANDIDATES, "if any(spelling(item.url) not in sent for item in part.items):", "if False:"),
        "test_a_batch_whose_answer_was_lost_is_found_by_its_urls",
        "test_a_batch_of_others_of_the_same_size_is_not_ours",
    ),
    _of_batches(
        "only a batch of the very same size is ours",
        Edit(CANDIDATES, "job.accepted_urls > len(request.urls)", "job.accepted_urls != len(request.urls)"),
        "test_a_batch_that_left_out_invalid_urls_is_still_ours",
    ),
    _of_batches(
        "rows do not wait for a batch that may be ours and still runs",
        Edit(
            CANDIDATES,
            "        if not job.is_terminal:\n            return None",
            "        if not job.is_terminal:\n            continue",
        ),
        "test_while_a_batch_that_may_be_ours_still_runs_the_rows_wait",
    ),
    _of_batches(
        "a page of results that is short counts as read",
        Edit(BULK, "if self._pages_read not in self._doubted and self._may_change(answer):", "if False:"),
        f"{_DOUBTFUL}::test_an_empty_page_of_results_is_read_again_and_not_paid_again",
    ),
    _of_batches(
        "a refused batch parks all of its rows",
        Edit(SUBMITTING, "if isinstance(answer, RefusedSubmission) and len(request) > 1:", "if False:"),
        "test_a_batch_that_is_refused_is_sent_one_by_one",
        by_machine=False,
    ),
    Breakage(
        "a job is stamped while a row still waits for it",
        (Edit(OUTCOMES, "_event.processed_at.is_(None), left == 0)", "_event.processed_at.is_(None))"),),
        (f"{_LEDGER}/test_settling.py::test_a_job_is_not_stamped_while_a_row_still_waits_for_it",),
        by_machine=False,
    ),
    Breakage(
        "given_up_is_not_left: a job is stamped while a row that was given up may be stored after all",
        (
            Edit(
                OUTCOMES,
                "or_(in_state(State.ACCEPTED), and_(in_state(State.DEAD), _row.given_up)),\n",
                "in_state(State.ACCEPTED),\n",
            ),
        ),
        (f"{_LEDGER}/test_settling.py::test_a_job_is_not_stamped_while_a_row_still_waits_for_it",),
        by_machine=False,
    ),
    Breakage(
        "batch_all_or_nothing: the rows of a batch are recorded one by one",
        (
            Edit(SUBMISSIONS, RECORD_GUARD, _FIRST_OF_REQUEST),
            Edit(
                SUBMISSIONS,
                "            with self.writing() as connection:\n"
                "                return self._bind(connection, accepted, first_look_at)\n",
                _ROW_BY_ROW,
            ),
        ),
        (f"{_LEDGER}/test_atomicity.py::test_a_transition_happens_whole_or_not_at_all",),
    ),
    Breakage(
        "no_url_twice_in_batch: a batch carries a URL twice",
        (Edit(CLAIMS, OTHERS_OF_THE_URL, ONLY_SENDING), *INDEX_OF_SENDING),
        (f"{_LEDGER}/test_batches.py::test_a_batch_carries_a_url_once",),
        also_broken="the unique index",
    ),
    _of_batches(
        "rows with other options go into a batch",
        Edit(CLAIMS, "                _row.options == first.options,\n", ""),
        "test_a_batch_holds_equal_options_only_and_none_that_no_batch_takes",
    ),
    _of_batches(
        "a row that was set apart goes into a batch again",
        Edit(CLAIMS, "first.kind != Kind.ALONE and terms.fits(", "terms.fits("),
        f"{_LEDGER}/test_batches.py::test_rows_of_a_batch_that_was_refused_as_a_whole_go_into_no_batch_again",
    ),
    _of_batches(
        "rows of a batch that never arrived go into a batch again",
        Edit(
            SUBMISSIONS, "kind=case((_row.kind == Kind.BATCH, Kind.ALONE), else_=_row.kind)", "kind=_row.kind"
        ),
        f"{_LEDGER}/test_batches.py::test_rows_of_a_batch_that_never_arrived_go_into_no_batch_again",
    ),
    _of_batches(
        "what the service left out of a batch waits for an item",
        Edit(SUBMISSIONS, "                self._park_invalid(connection, acceptance, now)\n", ""),
        "test_urls_that_the_service_takes_for_invalid_are_parked_with_the_reason",
    ),
    _of_batches(
        "an item counts as missing that two readings in different orders have not seen",
        Edit(BULK, "if missing and self._began_at and self.job.kind == Kind.BATCH:", "if False:"),
        f"{_DOUBTFUL}::"
        "test_a_run_that_goes_on_where_another_ended_meets_another_order_and_takes_nothing_for_missing",
        by_machine=False,
    ),
    _of_batches(
        "runs that died count as readings of a page that is short",
        Edit(
            BULK,
            "if self._pages_read not in self._doubted and self._may_change(answer):",
            "if self.job.tries <= DOUBTS and self._may_change(answer):",
        ),
        f"{_DOUBTFUL}::test_runs_that_died_are_no_readings_of_an_empty_page",
        by_machine=False,
    ),
    _of_batches(
        "a gap in the results is believed after a few tries, however soon",
        Edit(BULK, " and is_past(self.ledger, since, self.policy.doubt_for)", ""),
        f"{_DOUBTFUL}::test_a_page_of_results_that_stays_empty_for_half_a_minute_is_not_paid_again",
        by_machine=False,
    ),
    _of_batches(
        "an item without a fragment is no row's that has one",
        Edit(BULK, "        items += self._spared()\n", ""),
        f"{_DOUBTFUL}::test_rows_that_differ_by_a_fragment_each_have_their_page_where_fragments_are_left_away",
        by_machine=False,
    ),
    _of_batches(
        "a batch without markers is taken although the service shows them",
        Edit(CANDIDATES, "if not (are_shown and held.is_bare)", "if True"),
        "scraper_pipeline_tests/integration/lifecycle/test_marking.py"
        "::test_a_foreign_batch_without_markers_is_not_taken_where_bound_ones_show_theirs",
        by_machine=False,
    ),
    _of_batches(
        "a batch with the markers of another request is taken",
        Edit(
            CANDIDATES,
            "if any(is_marked_url(item.url) and not item.url.endswith(marker) for item in part.items):",
            "if False:",
        ),
        "scraper_pipeline_tests/integration/lifecycle/test_marking.py"
        "::test_a_batch_with_the_markers_of_another_request_is_not_taken",
        by_machine=False,
    ),
    _of_batches(
        "a lost batch that shows nothing is taken for another program's",
        Edit(CANDIDATES, "    if not urls and (counted or not is_readable):\n        return None\n", ""),
        f"{_DOUBTFUL}::test_a_lost_batch_of_which_the_only_page_comes_empty_is_not_paid_again",
    ),
    _of_batches(
        "a batch that was given up, and is there, is submitted again",
        Edit(
            RESUBMITTING, 'job.status == "completed" or not isinstance(job, Job)', 'job.status == "completed"'
        ),
        MACHINE,
        by_machine=False,
    ),
    _of_batches(
        "a reading does not see the rows that were given up",
        Edit(
            CLAIMED_JOBS,
            "waiting = or_(in_state(State.ACCEPTED), and_(in_state(State.DEAD), _row.given_up))",
            "waiting = in_state(State.ACCEPTED)",
        ),
        MACHINE,
        by_machine=False,
    ),
)
