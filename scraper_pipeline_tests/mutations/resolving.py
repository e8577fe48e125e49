"""Breakages of rules 5 and 7: lost answers, and targets that are submitted again on purpose."""

from scraper_pipeline_tests.mutations.breakage import Breakage, Edit
from scraper_pipeline_tests.mutations.sending import SUBMISSIONS

RESOLUTION = "scraper_pipeline/lifecycle/resolution.py"
CANDIDATES = "scraper_pipeline/lifecycle/candidates.py"
RESUBMITTING = "scraper_pipeline/lifecycle/resubmission.py"
RESUBMISSIONS = "scraper_pipeline/ledger/resubmissions.py"
_RESOLVING = "scraper_pipeline_tests/integration/ledger/test_resolving.py"
_RESOLUTION = "scraper_pipeline_tests/integration/lifecycle/test_resolution.py"
_RESUBMISSION = "scraper_pipeline_tests/integration/lifecycle/test_resubmission.py"

_GUARD = "overdue = and_(_row.request_id == request_id, in_state(State.SENDING), _row.lease_until < before)"
_RESUBMIT_GUARD = ".where(_row.id.in_(row_ids), in_state(state), _row.given_up.is_(given_up))"

LOST_ANSWERS = (
    Breakage(
        "a row whose answer was lost is sent again blindly",
        (Edit(RESOLUTION, 'job_id = candidates[0].job_id if candidates else "none"', 'job_id = "none"'),),
        (f"{_RESOLUTION}::test_the_job_of_a_lost_answer_is_found_and_settled",),
    ),
    Breakage(
        "the listing is asked for before the grace has ended",
        (
            Edit(
                SUBMISSIONS,
                "self.in_scope(submissions), in_state(State.SENDING), _row.lease_until < before\n",
                "self.in_scope(submissions), in_state(State.SENDING), _row.lease_until < self.clock()\n",
            ),
        ),
        (f"{_RESOLVING}::test_nothing_is_resolved_before_the_grace_has_ended",),
    ),
    Breakage(
        "a row is resolved before its grace has ended",
        (Edit(SUBMISSIONS, _GUARD, _GUARD.replace(", _row.lease_until < before", "")),),
        (f"{_RESOLVING}::test_nothing_is_resolved_before_the_grace_has_ended",),
        by_machine=False,
    ),
    Breakage(
        "a row is resolved although it is no longer sending",
        (Edit(SUBMISSIONS, _GUARD, "overdue = _row.request_id == request_id"),),
        (f"{_RESOLVING}::test_a_sweep_that_took_long_leaves_a_recorded_row_alone",),
        also_broken="the check of the lease, which a recorded row no longer has",
    ),
    Breakage(
        "a row is resolved under another request",
        (Edit(SUBMISSIONS, _GUARD, "overdue = and_(in_state(State.SENDING), _row.lease_until < before)"),),
        (f"{_RESOLVING}::test_a_sweep_that_took_long_leaves_a_newer_request_alone",),
    ),
    Breakage(
        "a job that a row holds is a candidate",
        (Edit(RESOLUTION, "free = [job for job in jobs if job.job_id not in bound]", "free = list(jobs)"),),
        (f"{_RESOLUTION}::test_a_job_that_another_row_holds_is_not_taken",),
    ),
    Breakage(
        "a superseded row's job counts as free",
        (
            Edit(
                SUBMISSIONS,
                "select(_row.job_id).where(_row.job_id.in_(chunk)).distinct()",
                "select(_row.job_id).where(_row.job_id.in_(chunk), ~in_state(State.SUPERSEDED)).distinct()",
            ),
        ),
        (f"{_RESOLVING}::test_a_job_that_any_row_holds_is_not_taken_for_a_lost_one",),
        by_machine=False,
    ),
    Breakage(
        "a job from before the claim is a candidate",
        (
            Edit(
                RESOLUTION,
                "return _latest_creation(job) >= clock.earliest(request.sent_at) - skew",
                "return True",
            ),
        ),
        (
            f"{_RESOLUTION}"
            "::test_a_job_from_before_one_of_two_claims_that_are_looked_up_together_is_not_that_ones",
        ),
    ),
    Breakage(
        "a job for another URL is a candidate",
        (Edit(CANDIDATES, "found = [job for job in jobs if job.url == url]", "found = list(jobs)"),),
        (f"{_RESOLUTION}::test_rows_of_one_run_are_told_apart_by_their_urls",),
    ),
    Breakage(
        "several candidates are not waited for",
        (
            Edit(
                RESOLUTION,
                "candidates is not None and len(candidates) > 1 and not all(job.is_terminal for job in candidates)",
                "False",
            ),
        ),
        (f"{_RESOLUTION}::test_while_one_of_several_jobs_still_runs_the_row_waits",),
    ),
    Breakage(
        "of several candidates the completed one is not preferred",
        (Edit(RESOLUTION, '(-job.urls, job.status != "completed")', "-job.urls"),),
        (f"{_RESOLUTION}::test_of_several_jobs_the_one_that_was_completed_is_taken",),
    ),
    Breakage(
        "a listing that may lack a line decides",
        (Edit(RESOLUTION, "free, clock) if is_whole else None", "free, clock)"),),
        (f"{_RESOLUTION}::test_a_listing_that_stays_cut_short_proves_no_absence",),
    ),
    Breakage(
        "a row that can not be resolved waits for ever",
        (
            Edit(
                RESOLUTION,
                "for one in requests if is_past(ledger, one.sent_at, policy.unresolved_after)]",
                "for one in requests if False]",
            ),
        ),
        (f"{_RESOLUTION}::test_past_the_hard_limit_a_row_that_still_waits_is_parked",),
    ),
)
ON_PURPOSE = (
    Breakage(
        "the job of a given-up target is not asked first",
        (
            Edit(
                RESUBMITTING,
                "        if target.given_up and target.job_id:\n",
                "        if False:\n",
            ),
        ),
        (f"{_RESUBMISSION}::test_a_given_up_job_that_was_completed_after_all_is_settled_instead",),
    ),
    Breakage(
        "a target is submitted again while its job still runs",
        (Edit(RESUBMITTING, 'return "running"', 'return "over"'),),
        (f"{_RESUBMISSION}::test_a_target_whose_given_up_job_still_runs_is_refused",),
    ),
    Breakage(
        "a target is submitted again although it is no longer dead",
        (Edit(RESUBMISSIONS, _RESUBMIT_GUARD, ".where(_row.id.in_(row_ids))"),),
        (f"{_RESUBMISSION}::test_a_target_that_is_stored_while_it_is_asked_about_is_not_paid_again",),
        by_machine=False,
    ),
    Breakage(
        "resubmission leaves the letter open",
        (
            Edit(
                RESUBMISSIONS,
                '.values(resolved_at=now, resolution="resubmitted")',
                ".values(resolution=_letter.resolution)",
            ),
        ),
        (f"{_RESUBMISSION}::test_a_parked_target_goes_out_again_with_its_letter_resolved",),
    ),
    Breakage(
        "the cap does not count from the resubmission",
        (
            Edit(
                RESUBMISSIONS,
                "                    _row.attempt + 1,\n                    _row.attempt + 1,\n",
                "                    _row.attempt + 1,\n                    _row.first_attempt,\n",
            ),
        ),
        (f"{_RESUBMISSION}::test_the_cap_counts_from_the_resubmission",),
    ),
)
