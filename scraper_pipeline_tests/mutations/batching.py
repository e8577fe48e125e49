"""Breakages of what the rules say of batches."""

from scraper_pipeline_tests.mutations.breakage import Breakage, Edit
from scraper_pipeline_tests.mutations.resolving import CANDIDATES

BULK = "scraper_pipeline/lifecycle/bulk.py"
SUBMITTING = "scraper_pipeline/lifecycle/submission.py"
OUTCOMES = "scraper_pipeline/ledger/outcomes.py"
_SETTLING = "scraper_pipeline_tests/integration/ledger/test_settling.py"
_DOUBTFUL = "scraper_pipeline_tests/integration/lifecycle/test_doubtful_results.py"
_BATCHES = "scraper_pipeline_tests/integration/lifecycle/test_batches.py"


def _of_batches(name: str, edit: Edit, *tests: str) -> Breakage:
    return Breakage(
        name,
        (edit,),
        tuple(test if "::" in test else f"{_BATCHES}::{test}" for test in tests),
        by_machine=False,
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
        Edit(BULK, "if self._may_change(answer):", "if False:"),
        f"{_DOUBTFUL}::test_an_empty_page_of_results_is_read_again_and_not_paid_again",
    ),
    _of_batches(
        "a refused batch parks all of its rows",
        Edit(SUBMITTING, "if isinstance(answer, RefusedSubmission) and len(request) > 1:", "if False:"),
        "test_a_batch_that_is_refused_is_sent_one_by_one",
    ),
    Breakage(
        "a job is stamped while a row still waits for it",
        (Edit(OUTCOMES, "_event.processed_at.is_(None), left == 0)", "_event.processed_at.is_(None))"),),
        (f"{_SETTLING}::test_a_job_is_not_stamped_while_a_row_still_waits_for_it",),
        by_machine=False,
    ),
)
