"""Signatures against published vectors, and what a spoilt one looks like."""

from base64 import b64encode
from datetime import UTC, datetime

import pytest

from scraper_pipeline.sandbox.webhooks.signatures import Headers, Scheme, sign, spoil

# RFC 4231, test case 2
KEY, BODY = "Jefe", b"what do ya want for nothing?"
MAC = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
NOON = datetime(2026, 5, 27, 12, tzinfo=UTC)


def signed(scheme: Scheme, *, body: bytes = BODY, secret: str = KEY, previous: str | None = None) -> Headers:
    return sign(
        body,
        scheme=scheme,
        header="X-S",
        secret=secret,
        previous_secret=previous,
        message_id="msg_1",
        at=NOON,
    )


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("hex", MAC),
        ("upper_hex", MAC.upper()),
        ("sha256", f"sha256={MAC}"),
        ("base64", b64encode(bytes.fromhex(MAC)).decode()),
    ],
)
def test_each_encoding_agrees_with_the_published_vector(scheme: Scheme, expected: str):
    assert signed(scheme) == [("X-S", expected)]


@pytest.mark.parametrize(("scheme", "separator"), [("list", ","), ("spaced_list", " ")])
def test_a_list_holds_the_old_signature_or_a_strange_one_and_then_the_right_one(
    scheme: Scheme, separator: str
):
    ((_, text),) = signed(scheme, secret="new", previous=KEY)
    old, new = text.split(separator)
    assert (old, new) == (MAC, signed("hex", secret="new")[0][1])
    ((_, text),) = signed(scheme)
    strange, right = text.split(separator)
    assert right == MAC
    assert strange != MAC
    assert len(strange) == 64


def test_the_standard_scheme_agrees_with_its_published_vector():
    headers = sign(
        b'{"test": 2432232314}',
        scheme="standard",
        header="X-S",
        secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        previous_secret=None,
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        at=datetime.fromtimestamp(1614265330, UTC),
    )
    assert headers == [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ]


def test_a_secret_with_a_prefix_is_taken_literally_outside_the_standard():
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert signed("base64", secret=secret) != signed("base64", secret=secret.removeprefix("whsec_"))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (None, [("X-S", MAC)]),
        ("garbage", [("X-S", f"{MAC[:-1]}~")]),
        ("not_ascii", [("X-S", "sha256=\xe9")]),
        ("empty", [("X-S", "")]),
        ("absent", []),
    ],
)
def test_a_spoilt_signature_is_wrong_in_its_own_way(form: str | None, expected: Headers):
    assert spoil(signed("hex"), form) == expected


def test_only_the_signature_of_a_standard_delivery_is_spoilt():
    assert [name for name, _ in spoil(signed("standard", secret="c2VjcmV0"), "absent")] == [
        "webhook-id",
        "webhook-timestamp",
    ]
