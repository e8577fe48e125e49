"""The life of a job, free of Dagster: submission, polling, settlement, and the resolution of lost answers."""

from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.polling import PollReport, poll_jobs
from scraper_pipeline.lifecycle.reconciliation import ResolutionReport, resolve_lost_answers
from scraper_pipeline.lifecycle.settlement import SETTLE_LEASE, Settlement
from scraper_pipeline.lifecycle.submission import SubmissionReport, submit_jobs

__all__ = [
    "SETTLE_LEASE",
    "LifecyclePolicy",
    "PollReport",
    "ResolutionReport",
    "Settlement",
    "SubmissionReport",
    "poll_jobs",
    "resolve_lost_answers",
    "submit_jobs",
]
