"""What a dead letter says of the submission that was parked."""

from datetime import datetime
from typing import Any


def letter_row(row: Any, code: str, message: str, now: datetime) -> dict[str, Any]:
    """The columns of a letter for a row of ``submissions``, which may have no job."""
    return {
        "job_id": row.job_id,
        "item_key": row.item_key,
        "account": row.account,
        "feed": row.feed,
        "partition_key": row.partition_key,
        "target_id": row.target_id,
        "url": row.url,
        "error_code": code,
        "error_message": message,
        "attempts": row.attempt,
        "parked_at": now,
    }
