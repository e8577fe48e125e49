"""What goes wrong at the service: a steady rain of every fault, and storms of one of them on top."""

from collections.abc import Mapping
from typing import Any

Orders = Mapping[str, Any]

LONGEST_LISTING_LAG = 1.0

RAIN: Orders = {
    "latency": [{"probability": 0.2, "seconds": 0.05}, {"probability": 0.02, "seconds": 0.5}],
    "cut_before": [{"probability": 0.01}],
    "rate_limit_429": [{"probability": 0.01, "retry_after": 0.2}],
    "post_500_before": [{"probability": 0.01}],
    "post_502_after_accept": [{"probability": 0.02}],
    "answer_lost": [{"probability": 0.03}],
    "slow_answer": [{"probability": 0.005, "seconds": 4.0}],
    "unreadable_answer": [{"probability": 0.01, "form": "html"}, {"probability": 0.01, "form": "cut"}],
    "get_500": [{"probability": 0.03}],
    "job_404": [{"probability": 0.02, "seconds": 0.5}],
    "truncated_body": [{"probability": 0.02}],
    "list_500": [{"probability": 0.03}],
    "listing_empty_page": [{"probability": 0.02}],
    "odd_timestamps": [{"probability": 0.02}],
    "late_job": [{"probability": 0.02, "seconds": 3.0}],
    "never_finish": [{"probability": 0.003}],
    "job_failed": [{"probability": 0.03}, {"probability": 0.005, "code": "PERMANENT_BLOCK"}],
    "webhook_drop": [{"probability": 0.1}],
    "webhook_early": [{"probability": 0.05, "again": True}, {"probability": 0.05}],
    "webhook_duplicate": [
        {"probability": 0.1, "copies": 2, "identical": True},
        {"probability": 0.1, "seconds": 0.5},
    ],
    "webhook_delay": [{"probability": 0.1, "seconds": 1.0}],
    "webhook_out_of_order": [{"probability": 0.1, "seconds": 1.0}],
    "webhook_wrong_signature": [{"probability": 0.1}, {"probability": 0.03, "form": "garbage"}],
    "webhook_slow": [{"probability": 0.03, "seconds": 0.3, "chunked": True}],
    "webhook_500": [{"probability": 0.03}],
    "listing_lag": 0.3,
    "listing_capped_above": None,
    "expire_results_after": None,
    "rate": None,
    "unauthorized": False,
    "payment_required": False,
}
# Each takes the place of the rain's orders of the same name, until the next storm.
# No listing lags by more than the grace allows for, so no page may be paid twice because of it.
STORMS: Mapping[str, Orders] = {
    "requests are throttled": {"rate_limit_429": [{"count": 60, "retry_after": 0.5}, {"probability": 0.1}]},
    "few requests a second are admitted": {"rate": 30.0},
    "answers to submissions are lost": {"answer_lost": [{"probability": 0.5}]},
    "submissions meet bad gateways": {
        "post_502_after_accept": [{"probability": 0.3}],
        "post_500_before": [{"probability": 0.3}],
    },
    "connections are cut": {
        "cut_before": [{"probability": 0.3}],
        "truncated_body": [{"probability": 0.3}],
    },
    "jobs can't be read": {"get_500": [{"probability": 0.6}]},
    "jobs are unknown for longer than they may be": {"job_404": [{"probability": 0.2, "seconds": 6.0}]},
    "listings are capped": {"listing_capped_above": 40, "listing_lag": LONGEST_LISTING_LAG},
    "listings fail": {"list_500": [{"probability": 0.5}], "listing_empty_page": [{"probability": 0.2}]},
    "results expire soon": {"expire_results_after": 3.0},
    "webhooks are silent": {"webhook_drop": [{"probability": 0.9}]},
    "webhooks are wrongly signed": {"webhook_wrong_signature": [{"probability": 0.8}]},
    "webhooks come twice and too early": {
        "webhook_early": [{"probability": 0.5, "again": True}],
        "webhook_duplicate": [{"probability": 0.8, "copies": 3}],
    },
    "the key is refused": {"unauthorized": [{"count": 12}]},
    "the balance is used up": {"payment_required": [{"count": 12}]},
    "jobs fail": {"job_failed": [{"probability": 0.4}]},
}
# A job that was given up as unknown is looked at again ten minutes later, which only the parts can be told to shorten.
TOO_SLOW_FOR_DAGSTER = frozenset({"jobs are unknown for longer than they may be"})
