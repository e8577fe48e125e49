"""The webhook receiver: verifies a delivery, commits it, answers, and does nothing else."""

from scraper_pipeline.receiver.app import Receiver, create_receiver
from scraper_pipeline.receiver.config import DEFAULT_SCHEMES, ReceiverConfig, Scheme
from scraper_pipeline.receiver.server import serve

__all__ = ["DEFAULT_SCHEMES", "Receiver", "ReceiverConfig", "Scheme", "create_receiver", "serve"]
