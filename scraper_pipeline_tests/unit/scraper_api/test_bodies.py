"""What leaves the boundary can be stored by every database."""

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_pipeline.scraper_api import bodies
from scraper_pipeline.scraper_api.bodies import clean, read_json

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]), max_size=20) | st.sampled_from(
    ["\x00", "\ud800", "\udfff", "\U0001f378", "\\u0000", "\ufffd"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=15,
)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *(leaf for item in value.values() for leaf in leaves(item))]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


@given(ANY_JSON)
def test_any_json_becomes_storable_whatever_it_holds(value: Any) -> None:
    read, _ = read_json(json.dumps(value).encode())

    for leaf in leaves(read):
        if isinstance(leaf, str):
            assert "\x00" not in leaf
            leaf.encode()
        elif isinstance(leaf, float):
            assert math.isfinite(leaf)
        elif isinstance(leaf, int):
            assert -(2**63) <= leaf < 2**63
    assert clean(read) == (read, 0)


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
@pytest.mark.parametrize("ascii_only", [True, False])
def test_good_text_is_left_as_it_is(ascii_only: bool, text: str) -> None:
    assert read_json(json.dumps({text: text}, ensure_ascii=ascii_only).encode()) == ({text: text}, 0)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rb'"\ud83c\udf78"', ("\U0001f378", 0)),
        (rb'"\ud83c"', ("\ufffd", 1)),
        (rb'"\udf78\ud83c"', ("\ufffd\ufffd", 2)),
        (rb'"\uD800"', ("\ufffd", 1)),
        (rb'"a\u0000b"', ("a\ufffdb", 1)),
        (b'"a\x00b"', ("a\ufffdb", 1)),
        (rb'"a\\u0000b"', ("a\\u0000b", 0)),
        (rb'{"a\u0000": {"\ud800": ["\u0000"]}}', ({"a\ufffd": {"\ufffd": ["\ufffd"]}}, 3)),
        (b'"a\xffb \xef\xbf\xbd"', ("a\ufffdb \ufffd", 1)),
        (b'"\xed\xa0\x80"', ("\ufffd\ufffd\ufffd", 3)),
        (b'\xef\xbb\xbf"bom"', ("bom", 0)),
        (b'"tab\tand\nline"', ("tab\tand\nline", 0)),
        (b"[NaN, Infinity, -Infinity]", (["NaN", "Infinity", "-Infinity"], 0)),
        (b"[9223372036854775807, 9223372036854775808]", ([2**63 - 1, "9223372036854775808"], 0)),
        (b"[-9223372036854775808, -9223372036854775809]", ([-(2**63), "-9223372036854775809"], 0)),
        (b"[1e400, -1e400, 1e308]", (["1e400", "-1e400", 1e308], 0)),
    ],
)
def test_what_no_database_takes_is_replaced_and_counted(body: bytes, expected: tuple[Any, int]) -> None:
    assert read_json(body) == expected


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b'{"a":1}x', b"[" * 200_000, b'{"a":' * 200_000])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (whatever it says)
        read_json(body)


def test_json_nested_beyond_the_stack_is_a_value_error_and_no_crash() -> None:
    depth = 50_000

    with pytest.raises(ValueError, match="nested"):
        read_json(b'{"a":' * depth + rb'"\u0000"' + b"}" * depth)


@given(ANY_JSON, st.booleans())
def test_the_fast_reader_and_the_tolerant_one_read_the_same(value: Any, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    assert read_json(body) == bodies._read_tolerantly(body)


@given(st.text("0123456789.eE+-", min_size=1, max_size=30))
def test_the_two_readers_agree_on_every_number(digits: str) -> None:
    try:
        expected = bodies._read_tolerantly(digits.encode())
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 (whatever it says)
            read_json(digits.encode())
        return
    read = read_json(digits.encode())
    assert (read, type(read[0])) == (expected, type(expected[0]))


@pytest.mark.parametrize(
    "body", [rb'["\u0000"]', rb'{"\u0000": 1}', b"[18446744073709551616]", b"[-9223372036854775809]"]
)
def test_what_orjson_takes_and_no_database_does_is_read_anew(body: bytes) -> None:
    assert not bodies._is_storable(orjson.loads(body))
