"""Lists of targets, from wherever they live, row by row: each target once, and what became of every other row."""

from scraper_pipeline.target_lists.downloads import shown_url
from scraper_pipeline.target_lists.entries import Duplicate, Rejected, TargetListError
from scraper_pipeline.target_lists.identity import InvalidTarget, make_target, normalise_url
from scraper_pipeline.target_lists.lists import DAILY, MANUAL, TargetList, read_target_list
from scraper_pipeline.target_lists.naming import choose_lists, load_target_lists

__all__ = [
    "DAILY",
    "MANUAL",
    "Duplicate",
    "InvalidTarget",
    "Rejected",
    "TargetList",
    "TargetListError",
    "choose_lists",
    "load_target_lists",
    "make_target",
    "normalise_url",
    "read_target_list",
    "shown_url",
]
