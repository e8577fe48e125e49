"""A process that is in the middle of a commit for as long as it lives: it holds every day of the ledger."""

import time

from sqlalchemy import select

from scraper_pipeline.ledger import database
from scraper_pipeline.ledger.schema import partitions
from scraper_pipeline.settings import load_settings

if __name__ == "__main__":
    engine = database.open_engine(load_settings().ledger_url.get_secret_value())
    with engine.begin() as connection:
        connection.execute(select(partitions.c.partition_key).with_for_update()).all()
        print("holding", flush=True)
        while True:
            time.sleep(60)
