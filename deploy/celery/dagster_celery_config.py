"""Settings of the Celery workers; `dagster_celery.app` reads this module where it is importable.

It stands in /etc/scraper-pipeline/celery, on the workers' PYTHONPATH, and keeps the URLs, which hold a password, in
the environment.
"""

import os

broker_url = os.environ["DAGSTER_CELERY_BROKER_URL"]
result_backend = os.environ["DAGSTER_CELERY_BACKEND_URL"]
task_track_started = True
result_expires = 86400
worker_prefetch_multiplier = 1  # a run takes minutes: none waits behind another one while a worker is free
worker_hijack_root_logger = False
broker_connection_retry_on_startup = True
