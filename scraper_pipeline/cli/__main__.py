"""``python -m scraper_pipeline.cli``."""

from scraper_pipeline.cli import main

main()
