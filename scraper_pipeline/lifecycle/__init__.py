"""The life of a job, free of Dagster: submission, polling, settlement, and the resolution of lost answers."""

from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.polling import PollReport, poll_jobs
from scraper_pipeline.lifecycle.reconciliation import ResolutionReport, resolve_lost_answers
from scraper_pipeline.lifecycle.resubmission import ResubmissionReport, resubmit_targets
from scraper_pipeline.lifecycle.settlement import SETTLE_LEASE, Settlement
from scraper_pipeline.lifecycle.submission import SUBMIT_LEASE, SubmissionReport, submit_jobs

__all__ = [
    "SETTLE_LEASE",
    "SUBMIT_LEASE",
    "LifecyclePolicy",
    "PollReport",
    "ResolutionReport",
    "ResubmissionReport",
    "Settlement",
    "SubmissionReport",
    "poll_jobs",
    "resolve_lost_answers",
    "resubmit_targets",
    "submit_jobs",
]
