"""Where in its own code a process may be killed, by the role that it plays: between any two durable steps.

``{n}`` stands for how often the moment is passed before it kills.
"""

from collections.abc import Mapping

SUBMIT: Mapping[str, str] = {
    "in the middle of planning": "statement INSERT INTO submissions 1",
    "after a claim, before any post": "call SubmissionStore.claim 1",
    "after a post, before its record": "call ScraperClient.submit_extract {n}",
    "after a batch was posted, before its record": "call ScraperClient.submit_batch 1",
    "inside the transaction of a record": "statement INSERT INTO jobs {n}",
    "before the commit of a record": "commit INSERT INTO jobs",
    "after the commit of a record": "call SubmissionStore.record_accepted {n}",
    "after a release": "call SubmissionStore.release 1",
}
SETTLE: Mapping[str, str] = {
    "after a claim, before any fetch": "call OutcomeStore.claim {n}",
    "after a fetch, before its commit": "call ScraperClient.get_job {n}",
    "at the beginning of a commit": "statement SELECT processed_events.job_id, processed_events.claimed_by {n}",
    "inside the commit, before a result": "statement INSERT INTO results 1",
    "inside the commit, before rows move": "statement UPDATE submissions SET state= 1",
    "inside the commit, before the next attempts": "statement INSERT INTO submissions 1",
    "inside the commit, before the letters": "statement INSERT INTO dead_letters 1",
    "before the commit of results": "commit INSERT INTO results",
    "after a commit": "call OutcomeStore.commit {n}",
}
SWEEP: Mapping[str, str] = {
    "after jobs to look at were taken": "call NewsStore.take_due_jobs 1",
    "after a listing, before its news": "call ScraperClient.list_jobs {n}",
    "before news is recorded": "statement INSERT INTO processed_events 1",
    "before the commit of news": "commit INSERT INTO processed_events",
    "after news, before the next looks": "statement looks=(jobs.looks 1",
    "after lost answers were found": "call SubmissionStore.overdue 1",
    "inside the resolution of a lost answer": "commit UPDATE submissions SET state=",
    "after the resolution of a lost answer": "call SubmissionStore.resolve {n}",
    "before the watermark of a sweep moves": "statement UPDATE sweeps SET seen_until 1",
    "before a sweep is done": "statement UPDATE sweeps SET ended_at 1",
}
LOG: Mapping[str, str] = {
    "after a page of the log": "call ScraperClient.list_deliveries {n}",
    "before attempts are recorded": "statement INSERT INTO deliveries 1",
    "before the commit of attempts": "commit INSERT INTO deliveries",
    "before the log counts as read": "statement UPDATE webhooks SET log_read_until 1",
    "before refused deliveries become news": "statement INSERT INTO processed_events 1",
}
RECEIVER: Mapping[str, str] = {
    "before a delivery is recorded": "statement INSERT INTO processed_events {n}",
    "after the commit, before the acknowledgement": "call InboxStore.commit {n}",
}

MOMENTS: Mapping[str, Mapping[str, str]] = {
    "submit": SUBMIT,
    "settle": SETTLE,
    "sweep": SWEEP,
    "log": LOG,
    "receiver": RECEIVER,
}
