"""One row of a finished day is corrupted by SQL, in a way that one asset check is there to find."""

# ruff: noqa: S608 (all of these statements are written here)

from dataclasses import dataclass

from sqlalchemy import Engine, text

_COLUMNS = (
    "account, feed, partition_key, target_id, attempt, url, labels, http_status, markdown, html, metadata, "
    "tokens_charged, content_sha256, is_empty, completed_at, stored_at"
)
_ONE = "(SELECT min(job_id) FROM results WHERE partition_key = :day AND job_id NOT LIKE 'forged-%')"
_ANOTHER = "(SELECT max(job_id) FROM results WHERE partition_key = :day)"


@dataclass(frozen=True)
class Corruption:
    """``repair`` undoes what ``inflict`` does to a day; ``check`` is the one that should turn red in between."""

    name: str
    check: str
    asset: str
    to_inflict: str
    to_repair: str

    def inflict(self, engine: Engine, day: str) -> None:
        self._touch_one_row(engine, self.to_inflict, day)

    def repair(self, engine: Engine, day: str) -> None:
        self._touch_one_row(engine, self.to_repair, day)

    @staticmethod
    def _touch_one_row(engine: Engine, statement: str, day: str) -> None:
        with engine.connect() as connection:
            touched = connection.execute(text(statement), {"day": day}).rowcount
            connection.commit()
        assert touched == 1


CORRUPTIONS = (
    Corruption(
        "a result that has gone missing",
        "complete",
        "stored_results",
        "UPDATE results SET partition_key = 'lost-' || partition_key, job_id = 'lost-' || job_id "
        f"WHERE job_id = {_ONE}",
        "UPDATE results SET partition_key = :day, job_id = replace(job_id, 'lost-', '') "
        "WHERE partition_key = 'lost-' || :day",
    ),
    Corruption(
        "a page that is stored a second time",
        "stored_once",
        "stored_results",
        f"INSERT INTO results (job_id, item_key, {_COLUMNS}) "
        f"SELECT 'forged-' || job_id, item_key, {_COLUMNS} FROM results WHERE job_id = {_ONE}",
        "DELETE FROM results WHERE partition_key = :day AND job_id LIKE 'forged-%'",
    ),
    Corruption(
        "a page that is empty",
        "share_of_empty_pages",
        "stored_results",
        f"UPDATE results SET is_empty = true WHERE job_id = {_ONE}",
        "UPDATE results SET is_empty = false WHERE partition_key = :day AND is_empty",
    ),
    Corruption(
        "a page with another one's content",
        "share_of_repeated_pages",
        "stored_results",
        "UPDATE results SET parent_url = content_sha256, "
        f"content_sha256 = (SELECT content_sha256 FROM results WHERE job_id = {_ANOTHER}) WHERE job_id = {_ONE}",
        "UPDATE results SET content_sha256 = parent_url, parent_url = NULL "
        "WHERE partition_key = :day AND parent_url IS NOT NULL",
    ),
    Corruption(
        "a letter too many",
        "share_of_parked_targets",
        "dead_letters",
        "INSERT INTO dead_letters (partition_key, target_id, url, error_code, error_message, attempts, parked_at) "
        f"SELECT partition_key, target_id, url, 'FORGED', 'forged', 1, stored_at FROM results WHERE job_id = {_ONE}",
        "DELETE FROM dead_letters WHERE partition_key = :day AND error_code = 'FORGED'",
    ),
)
