"""The life of a job, free of Dagster: submission, polling, settlement, and the resolution of lost answers."""

from scraper_pipeline.lifecycle.claiming import requests_needed
from scraper_pipeline.lifecycle.costs import (
    Comparison,
    MonthForecast,
    altogether,
    compare_costs,
    explanations,
    forecast_month,
    span_of,
    totals,
)
from scraper_pipeline.lifecycle.draining import Drain
from scraper_pipeline.lifecycle.places import Places
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.polling import EVERYWHERE, PollReport, poll_jobs
from scraper_pipeline.lifecycle.reconciliation import MakeTarget, SweepReport, reconcile_jobs
from scraper_pipeline.lifecycle.registration import (
    BULK_EVENT_TYPES,
    EVENT_TYPES,
    OLD_SECRET_STAYS,
    RegistrationReport,
    RotationReport,
    register_webhooks,
    rotate_secrets,
)
from scraper_pipeline.lifecycle.replay import (
    DeliveryLogReport,
    read_delivery_log,
    replay_deliveries,
    replayed_together,
)
from scraper_pipeline.lifecycle.resolution import ResolutionReport, resolve_lost_answers
from scraper_pipeline.lifecycle.resubmission import ResubmissionReport, resubmit_targets, retry_letters
from scraper_pipeline.lifecycle.settlement import RESOLUTION_SECONDS, SETTLE_LEASE, Settlement
from scraper_pipeline.lifecycle.spending import Bound, PagesLeft, pages_left, stops_account
from scraper_pipeline.lifecycle.submission import HELD_LEASE, SUBMIT_LEASE, SubmissionReport, submit_jobs

__all__ = [
    "BULK_EVENT_TYPES",
    "EVENT_TYPES",
    "EVERYWHERE",
    "HELD_LEASE",
    "OLD_SECRET_STAYS",
    "RESOLUTION_SECONDS",
    "SETTLE_LEASE",
    "SUBMIT_LEASE",
    "Bound",
    "Comparison",
    "DeliveryLogReport",
    "Drain",
    "LifecyclePolicy",
    "MakeTarget",
    "MonthForecast",
    "PagesLeft",
    "Places",
    "PollReport",
    "RegistrationReport",
    "ResolutionReport",
    "ResubmissionReport",
    "RotationReport",
    "Settlement",
    "SubmissionReport",
    "SweepReport",
    "altogether",
    "compare_costs",
    "explanations",
    "forecast_month",
    "pages_left",
    "poll_jobs",
    "read_delivery_log",
    "reconcile_jobs",
    "register_webhooks",
    "replay_deliveries",
    "replayed_together",
    "requests_needed",
    "resolve_lost_answers",
    "resubmit_targets",
    "retry_letters",
    "rotate_secrets",
    "span_of",
    "stops_account",
    "submit_jobs",
    "totals",
]
