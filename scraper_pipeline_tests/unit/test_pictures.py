"""The pictures in a day's metadata say what the numbers say."""

import base64
import re
from xml.etree import ElementTree

import dagster as dg

from scraper_pipeline.assets.pictures import latency_picture, progress_picture

_SVG = "{http://www.w3.org/2000/svg}"


def _drawn(picture: dg.MarkdownMetadataValue) -> ElementTree.Element:
    match = re.fullmatch(r"!\[[^\]]+\]\(data:image/svg\+xml;base64,([^)]+)\)", picture.value or "")
    assert match
    return ElementTree.fromstring(base64.b64decode(match[1]))  # noqa: S314 (our own)


def test_each_page_is_in_the_bar_of_its_latency() -> None:
    drawn = _drawn(latency_picture([0.0, 1.0, 1.5, 45.0, 3600.0, 3601.0, 9e9]))
    bars = [int(title.text or "") for title in drawn.iter(f"{_SVG}title")]
    assert bars == [2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2]
    assert (
        len([text for text in drawn.iter(f"{_SVG}text") if text.text != "7 pages by seconds to stored"]) == 13
    )


def test_the_line_of_the_day_rises_to_the_share_that_is_stored() -> None:
    drawn = _drawn(progress_picture([30.0, 10.0, 20.0], 4))
    [line] = drawn.iter(f"{_SVG}polyline")
    heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
    assert heights == sorted(heights, reverse=True)
    assert (heights[0], heights[-1]) == (126.0, 126.0 - 102.0 * 3 / 4)
    assert [text.text for text in drawn.iter(f"{_SVG}text")] == ["3 of 4 targets stored within 30 s"]


def test_a_day_without_pages_has_no_picture() -> None:
    assert latency_picture([]).value == progress_picture([], 3).value == "*no pages*"


def test_a_picture_of_many_pages_is_as_small_as_one_of_few() -> None:
    many = [float(number) for number in range(100_000)]
    assert len(latency_picture(many).value or "") + len(progress_picture(many, 100_000).value or "") < 8000
