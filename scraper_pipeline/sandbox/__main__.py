"""`python -m scraper_pipeline.sandbox`."""

from scraper_pipeline.sandbox.command import sandbox_command

sandbox_command(prog_name="python -m scraper_pipeline.sandbox")
