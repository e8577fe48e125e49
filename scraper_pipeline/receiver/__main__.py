"""`python -m scraper_pipeline.receiver`."""

from scraper_pipeline.receiver.command import receiver_command

receiver_command(prog_name="python -m scraper_pipeline.receiver")
