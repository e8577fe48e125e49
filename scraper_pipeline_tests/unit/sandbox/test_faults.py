"""When an ordered fault strikes, and when it does not."""

import pytest
from pydantic import ValidationError

from scraper_pipeline.sandbox.faults import FaultBook, Faults

URL = "http://127.0.0.1:8000/site/pages/7"


def strikes(book: FaultBook, times: int, url: str = URL) -> int:
    return sum(book.strike("answer_lost", book.faults.answer_lost, url) is not None for _ in range(times))


def test_nothing_goes_wrong_unless_ordered():
    assert strikes(FaultBook(seed=1), 100) == 0


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (True, 10),
        (False, 0),
        (None, 0),
        (3, 3),
        (0, 0),
        (1.0, 10),
        (0.0, 0),
        ({"count": 2}, 2),
        ([1, 2], 3),
        ({}, 10),
    ],
)
def test_a_rule_may_be_written_short(order: object, expected: int):
    book = FaultBook(1, Faults.model_validate({"answer_lost": order}))
    assert strikes(book, 10) == expected
    assert book.struck["answer_lost"] == expected


def test_a_count_is_used_up_only_by_urls_that_it_aims_at():
    book = FaultBook(1, Faults.model_validate({"answer_lost": {"count": 2, "url_contains": "/pages/7"}}))
    assert strikes(book, 5, "http://x/pages/8") == 0
    assert book.remaining() == {}
    assert strikes(book, 5) == 2
    assert book.remaining() == {"answer_lost": 0}


def test_a_count_with_a_probability_is_still_exact():
    book = FaultBook(1, Faults.model_validate({"answer_lost": {"count": 5, "probability": 0.3}}))
    assert strikes(book, 200) == 5


def test_a_probability_strikes_about_as_often_as_it_says():
    book = FaultBook(1, Faults.model_validate({"answer_lost": 0.25}))
    struck = sum(strikes(book, 1, f"http://x/{number}") for number in range(4000))
    assert 900 < struck < 1100


def test_a_url_meets_the_same_fate_whatever_came_before_and_wherever_the_sandbox_listens():
    urls = [f"/site/pages/{number}" for number in range(200)]
    order = Faults.model_validate({"answer_lost": 0.3})
    forwards, backwards = FaultBook(5, order), FaultBook(5, order)
    fates = {url: strikes(forwards, 1, f"http://127.0.0.1:1{url}") for url in urls}
    assert {url: strikes(backwards, 1, f"http://localhost:2{url}") for url in reversed(urls)} == fates
    other_seed = FaultBook(6, order)
    assert {url: strikes(other_seed, 1, f"http://127.0.0.1:1{url}") for url in urls} != fates


def test_ordering_one_fault_leaves_the_others_and_their_counts():
    book = FaultBook(1)
    book.order({"answer_lost": 3})
    assert strikes(book, 1) == 1
    book.order({"get_500": {"count": 1, "status": 503}})
    assert strikes(book, 10) == 2
    rule = book.strike("get_500", book.faults.get_500, URL)
    assert rule is not None
    assert rule.status == 503


def test_ordering_a_fault_again_starts_its_count_afresh():
    book = FaultBook(1)
    book.order({"answer_lost": 1})
    assert strikes(book, 5) == 1
    book.order({"answer_lost": 1})
    assert strikes(book, 5) == 1
    book.order({"answer_lost": None})
    assert strikes(book, 5) == 0


def test_a_fault_for_one_call_leaves_the_others_alone():
    book = FaultBook(1, Faults.model_validate({"unauthorized": {"on": "list"}}))
    rules = book.faults.unauthorized
    assert book.strike("unauthorized", rules, call="post") is None
    assert book.strike("unauthorized", rules, call="list") is not None


@pytest.mark.parametrize(
    "orders",
    [
        {"answer_lots": 1},
        {"answer_lost": {"probabilty": 0.5}},
        {"answer_lost": 1.5},
        {"answer_lost": -1},
        {"answer_lost": "often"},
        {"get_500": {"status": 404}},
        {"rate": 0},
    ],
)
def test_an_order_with_a_mistake_is_refused_and_changes_nothing(orders: dict[str, object]):
    book = FaultBook(1, Faults.model_validate({"answer_lost": True}))
    with pytest.raises(ValidationError):
        book.order(orders)
    assert strikes(book, 3) == 3
