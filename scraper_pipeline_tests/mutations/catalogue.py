"""Every breakage, in the order of the rules."""

from scraper_pipeline_tests.mutations.batching import BATCHES
from scraper_pipeline_tests.mutations.resolving import LOST_ANSWERS, ON_PURPOSE
from scraper_pipeline_tests.mutations.sending import ANSWERS, BOUNDS, CLAIMING
from scraper_pipeline_tests.mutations.settling import GIVING_UP, NEWS_OF_JOBS, SETTLEMENT_OF_JOBS

BREAKAGES = (
    *CLAIMING,
    *ANSWERS,
    *BOUNDS,
    *NEWS_OF_JOBS,
    *SETTLEMENT_OF_JOBS,
    *LOST_ANSWERS,
    *BATCHES,
    *GIVING_UP,
    *ON_PURPOSE,
)
