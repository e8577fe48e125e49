"""Signatures: golden vectors made with OpenSSL, and the one that the Standard Webhooks specification publishes."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from scraper_pipeline.receiver.config import ReceiverConfig, Scheme
from scraper_pipeline.receiver.signatures import SignatureVerifier
from scraper_pipeline.webhook_secrets import KnownSecrets, SecretsFile, WebhookSecret

SECRET = "geheim-123"
BODY = b'{"event":"extract_completed","data":{"job_id":"job-1"}}'
HEX = "4c5808e98abff508c03b785a78840112818eea9926ce64c2a95b108a38fc3f9c"
BASE64 = "TFgI6Yq/9QjAO3haeIQBEoGO6pkmzmTCqVsQijj8P5w="

PREFIXED_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HEX_UNDER_ITS_SPELLING = "4a20d6cc87899a799bcbf4ecceed4356bed9a2275c9718fb3f098bd69fe8edcd"
HEX_UNDER_ITS_BYTES = "989a8dc73e296fab330bc1dbf13def866de39a39c595693cfd3a1f3ca23ffe3a"

STANDARD_TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)
STANDARD = {
    b"webhook-id": b"msg_1",
    b"webhook-timestamp": b"1772366400",
    b"webhook-signature": b"v1,6lhwq/uyMoNFRPRBTCxj+EUCHAE7rwDMcMeGSKKWHtM=",
}
STANDARD_UNDER_THE_SPELLING = b"v1,pqwPd0EtCSVCTZ88ApzsvryzH544XrAAmlzIXwJoJgM="

ALL = frozenset(Scheme)


def verify(
    headers: dict[bytes, bytes] | str,
    body: bytes = BODY,
    secret: str = SECRET,
    schemes: frozenset[Scheme] = ReceiverConfig.schemes,
    now: datetime = STANDARD_TIME,
    **config,
) -> bool:
    secrets = KnownSecrets(fixed=[SecretStr(secret)])
    verifier = SignatureVerifier(secrets, ReceiverConfig(schemes=schemes, **config), lambda: now)
    if isinstance(headers, str):
        headers = {b"x-webhook-signature": headers.encode("latin-1")}
    claim = verifier.read_claim(headers)
    return claim is not None and verifier.verify(claim, [body]) is not None


@pytest.mark.parametrize(
    "signature",
    [
        HEX,
        HEX.upper(),
        f"sha256={HEX}",
        f"sha256={HEX.upper()}",
        f"SHA256={HEX}",
        BASE64,
        f" {HEX} ",
        f"{'0' * 64},{HEX}",
        f"{HEX}, {'0' * 64}",
        f"sha256={'0' * 64} sha256={HEX}",
        f"{'A' * 43}=,{BASE64}",
        f"something-else,,  ,{HEX}",
    ],
)
def test_every_encoding_of_the_contract_is_accepted_by_default(signature):
    assert verify(signature)
    assert not verify(signature, BODY + b" ")
    assert not verify(signature, secret="geheim-124")


@pytest.mark.parametrize(
    "signature",
    [
        "",
        " ",
        ",",
        "\t , ",
        HEX[:-1],
        HEX + "0",
        f"sha256={HEX[:-1]}",
        "sha256=",
        "sha256=\xe9",
        "\xe9",
        HEX.replace("4", "\xb2", 1),
        f"md5={HEX}",
        f"sha1={HEX}",
        f"sha256=sha256={HEX}",
        f"sha256={BASE64}",
        f"v1,{HEX[:40]}",
        f"0x{HEX}",
        f'"{HEX}"',
        BASE64[:-1],
        BASE64 + "=",
        BASE64.replace("/", "_"),
        "=" * 44,
        "A" * 100_000,
        " ".join([HEX] * 2000),
        "0" * 64,
    ],
)
def test_anything_else_is_refused_without_an_exception(signature):
    assert not verify(signature)
    assert not verify(signature, schemes=ALL)


def test_no_header_is_no_claim_so_that_no_body_need_be_read():
    verifier = SignatureVerifier(
        KnownSecrets(fixed=[SecretStr(SECRET)]), ReceiverConfig(schemes=ALL), lambda: STANDARD_TIME
    )
    assert verifier.read_claim({}) is None
    assert verifier.read_claim({b"x-webhook-signature": b"nonsense"}) is None
    assert verifier.read_claim({**STANDARD, b"webhook-timestamp": b""}) is None


@pytest.mark.parametrize(
    ("scheme", "signature"),
    [(Scheme.HEX, HEX), (Scheme.PREFIXED_HEX, f"sha256={HEX}"), (Scheme.BASE64, BASE64)],
)
def test_a_scheme_that_is_not_configured_is_refused(scheme, signature):
    assert verify(signature, schemes=frozenset({scheme}))
    assert not verify(signature, schemes=ALL - {scheme})


def test_the_name_of_the_header_is_configurable_in_any_case():
    headers = {b"x-hub-signature-256": f"sha256={HEX}".encode()}
    assert verify(headers, signature_header="X-Hub-Signature-256")
    assert not verify(headers)


def test_a_prefixed_secret_is_taken_as_it_is_spelled_outside_standard_webhooks():
    assert verify(HEX_UNDER_ITS_SPELLING, secret=PREFIXED_SECRET)
    assert not verify(HEX_UNDER_ITS_BYTES, secret=PREFIXED_SECRET)
    assert not verify(HEX_UNDER_ITS_BYTES, secret=PREFIXED_SECRET, schemes=ALL)


def test_a_prefixed_secret_is_stripped_and_decoded_for_standard_webhooks():
    only = frozenset({Scheme.STANDARD})
    assert verify(STANDARD, secret=PREFIXED_SECRET, schemes=only)
    assert verify(STANDARD, secret=PREFIXED_SECRET.removeprefix("whsec_"), schemes=only)
    under_the_spelling = {**STANDARD, b"webhook-signature": STANDARD_UNDER_THE_SPELLING}
    assert not verify(under_the_spelling, secret=PREFIXED_SECRET, schemes=ALL)
    assert not verify(STANDARD, secret=SECRET, schemes=ALL)  # no base64: a secret of another scheme


def test_the_published_vector_of_standard_webhooks_verifies():
    headers = {
        b"webhook-id": b"msg_p5jXN8AQM9LWM0D4loKWxJek",
        b"webhook-timestamp": b"1614265330",
        b"webhook-signature": b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    now = datetime.fromtimestamp(1614265330, UTC)
    assert verify(headers, b'{"test": 2432232314}', PREFIXED_SECRET, ALL, now)


def test_standard_webhooks_is_off_unless_it_is_configured():
    assert not verify(STANDARD, secret=PREFIXED_SECRET)


@pytest.mark.parametrize("seconds", [-300, 300])
def test_a_standard_signature_is_valid_within_five_minutes_of_its_time(seconds):
    at_the_edge = STANDARD_TIME + timedelta(seconds=seconds)
    beyond = STANDARD_TIME + timedelta(seconds=seconds * 1.01)
    assert verify(STANDARD, secret=PREFIXED_SECRET, schemes=ALL, now=at_the_edge)
    assert not verify(STANDARD, secret=PREFIXED_SECRET, schemes=ALL, now=beyond)
    assert verify(STANDARD, secret=PREFIXED_SECRET, schemes=ALL, now=beyond, standard_tolerance_seconds=600)


@pytest.mark.parametrize(
    "changes",
    [
        {b"webhook-id": b"msg_2"},
        {b"webhook-id": b""},
        {b"webhook-id": b"\xe9"},
        {b"webhook-timestamp": b"1772366401"},
        {b"webhook-timestamp": b"nan"},
        {b"webhook-timestamp": b"1772366400.0"},
        {b"webhook-timestamp": b"9" * 30},
        {b"webhook-timestamp": "１７７２３６６４００".encode()},
        {b"webhook-signature": b""},
        {b"webhook-signature": b"v1"},
        {b"webhook-signature": b"v1,"},
        {b"webhook-signature": STANDARD[b"webhook-signature"].replace(b"v1,", b"v2,")},
        {b"webhook-signature": STANDARD[b"webhook-signature"].replace(b"v1,", b"v1a,")},
        {b"webhook-signature": b"v1,\xe9"},
    ],
)
def test_every_part_of_a_standard_signature_counts(changes):
    assert not verify({**STANDARD, **changes}, secret=PREFIXED_SECRET, schemes=ALL)


def test_a_standard_header_may_hold_several_signatures():
    both = b"v1a,xyz v1,AAAA " + STANDARD[b"webhook-signature"]
    assert verify({**STANDARD, b"webhook-signature": both}, secret=PREFIXED_SECRET, schemes=ALL)


def test_a_body_that_is_no_text_is_refused_in_the_standard_scheme():
    assert not verify(STANDARD, b"\xff\xfe", PREFIXED_SECRET, ALL)


def test_the_raw_bytes_are_verified_and_not_what_they_mean():
    body = b'\xef\xbb\xbf {"a":1.0,"b":"\\u00e9","c":1e2}\r\n\n'
    signature = "1847fde9b1451016dafeddb2163079d4c7a8e852386b147f3718dc669f12e95c"
    assert verify(signature, body)
    assert not verify(signature, body.strip())
    assert not verify(signature, json.dumps(json.loads(body.decode("utf-8-sig"))).encode())


def test_a_body_may_come_in_pieces():
    verifier = SignatureVerifier(
        KnownSecrets(fixed=[SecretStr(SECRET)]), ReceiverConfig(), lambda: STANDARD_TIME
    )
    claim = verifier.read_claim({b"x-webhook-signature": HEX.encode()})
    assert claim is not None
    assert verifier.verify(claim, [BODY[:7], b"", BODY[7:]])
    assert not verifier.verify(claim, [BODY[7:], BODY[:7]])


def test_a_secret_of_a_moment_ago_is_found_when_a_signature_fails(tmp_path: Path):
    path = tmp_path / "secrets.json"
    write_secrets(path, "the-old-one")
    seconds = iter(range(0, 1))
    file = SecretsFile(path, monotonic=lambda: next(seconds, 0))  # time stands still: no look by the clock
    verifier = SignatureVerifier(KnownSecrets(file=file), ReceiverConfig(), lambda: STANDARD_TIME)
    claim = verifier.read_claim({b"x-webhook-signature": HEX.encode()})
    assert claim is not None
    assert not verifier.verify(claim, [BODY])
    write_secrets(path, "the-old-one", SECRET)
    assert verifier.verify(claim, [BODY])


def write_secrets(path: Path, *secrets: str) -> None:
    entries = [
        {"secret": s, "webhook_id": "w", "event_type": "e", "created_at": "2026-01-01T00:00:00Z"}
        for s in secrets
    ]
    path.write_text(json.dumps({"secrets": entries}))


def test_a_signature_tells_the_account_whose_secret_made_it(tmp_path: Path) -> None:
    file = SecretsFile(tmp_path / "secrets.json")
    for secret, account in (("s-mine", "default"), ("s-theirs", "research"), ("s-shared", "research")):
        made = WebhookSecret(SecretStr(secret), f"wh-{secret}", "e", STANDARD_TIME, account=account)
        file.add(made)
    secrets = KnownSecrets(fixed=[SecretStr("s-shared")], file=file)
    verifier = SignatureVerifier(secrets, ReceiverConfig(), lambda: STANDARD_TIME)

    def signer(secret: str) -> str | None:
        signature = hmac.new(secret.encode(), BODY, hashlib.sha256).hexdigest()
        claim = verifier.read_claim({b"x-webhook-signature": signature.encode()})
        assert claim is not None
        return verifier.verify(claim, [BODY])

    assert {secret: signer(secret) for secret in ("s-mine", "s-theirs", "s-shared", "s-unknown")} == {
        "s-mine": "default",
        "s-theirs": "research",
        "s-shared": "default",
        "s-unknown": None,
    }
