"""ID tokens: their signature, their claims, and what the server reads from them (OpenID Connect Core 1.0, 3.1.3.7).

A token counts if a key of the provider has signed it with an asymmetric algorithm that its metadata names, for this
server, for this sign-in (nonce) and for now. joserfc is imported with the first token: it and cryptography take 20 MB.
"""

import hmac
import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from tally.errors import log

# Clocks of two machines differ by seconds.
LEEWAY_S = 60
# By algorithm: the type of its keys. Neither `none` nor one whose key is the client's secret.
KEY_TYPES = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
_MAX_HEADER_BYTES = 16_384
_MAX_SUBJECT = 255


class BadToken(ValueError):
    """A token that does not prove anything; the message says what was expected, without the token."""


class UnknownKey(BadToken):
    """No known key of the provider has made the signature: the keys may have been rotated."""


class Claims(NamedTuple):
    """What a provider says of a person. `groups` None: it says nothing of groups."""

    subject: str
    email: str | None
    is_verified: bool
    groups: frozenset[str] | None


@cache
def _jws() -> tuple[Any, Any, Any]:
    from joserfc import jwk, jws
    from joserfc.jws import JWSRegistry

    class Registry(JWSRegistry):  # type: ignore[misc, unused-ignore]
        """Any algorithm, since ours was checked before; headers with a certificate, and those of vendors."""

        max_header_length = _MAX_HEADER_BYTES

        def get_alg(self, name: str) -> Any:
            return self.algorithms[name]

    return jws, jwk, Registry(strict_check_header=False)


def load() -> None:
    """Import what verifies signatures: 0.1 s, which is called in a thread."""
    _jws()


def signed_claims(token: str, keys: Sequence[Any], algorithms: Collection[str]) -> dict[str, Any]:
    """Return the claims of a token that one of the provider's keys has signed. Raises BadToken, UnknownKey."""
    import orjson
    from joserfc.errors import JoseError

    jws, jwk, registry = _jws()
    try:
        header = jws.extract_compact(token.encode(), registry=registry).headers()
    except (JoseError, ValueError, KeyError, TypeError, AttributeError):
        raise BadToken("the ID token is no signed token in compact form") from None
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in KEY_TYPES or algorithm not in algorithms:
        expected = ", ".join(sorted(KEY_TYPES.keys() & algorithms)) or "an asymmetric algorithm"
        raise BadToken(f"the ID token is signed with {algorithm!a:.40}; expected {expected}")
    for key in keys:
        if not _fits(key, header.get("kid"), algorithm):
            continue
        try:
            payload = jws.deserialize_compact(token.encode(), jwk.import_key(key), registry=registry).payload
        except (JoseError, ValueError, KeyError, TypeError):
            continue
        try:
            claims = orjson.loads(payload or b"")
        except ValueError:
            claims = None
        if not isinstance(claims, dict):
            raise BadToken("the ID token holds no JSON object")
        return claims
    raise UnknownKey(f"no key of the provider has signed the ID token (key id {header.get('kid')!a:.80})")


def _fits(key: Any, kid: Any, algorithm: str) -> bool:
    return (
        isinstance(key, dict)
        and key.get("kty") == KEY_TYPES[algorithm]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (kid is None or key.get("kid") == kid)
    )


def check_claims(claims: Mapping[str, Any], issuer: str, client: str, nonce: str, now_s: float) -> None:
    """Raise BadToken unless the claims are of this issuer, for this client and this sign-in, and hold now."""
    if claims.get("iss") != issuer:
        raise BadToken(f"the ID token is issued by {claims.get('iss')!a:.200}; expected {issuer}")
    audience, party = claims.get("aud"), claims.get("azp")
    audiences = audience if isinstance(audience, list) else [audience]
    if client not in audiences or (len(audiences) > 1 and party is None) or party not in (None, client):
        raise BadToken(f"the ID token is for {audience!a:.200} (azp {party!a:.100}); expected {client}")
    for name in ("exp", "iat"):
        value = claims.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise BadToken(f"the ID token has no time {name}")
    if claims["exp"] + LEEWAY_S <= now_s:
        raise BadToken(f"the ID token expired at {claims['exp']}; this server's clock says {now_s:.0f}")
    if claims["iat"] - LEEWAY_S > now_s:
        raise BadToken(f"the ID token was issued at {claims['iat']}; this server's clock says {now_s:.0f}")
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode("utf-8", "replace"), nonce.encode()):
        raise BadToken("the nonce of the ID token is not that of this sign-in")
    subject_of(claims)


def subject_of(claims: Mapping[str, Any]) -> str:
    """Return the person's id at the provider. Raises BadToken."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT or not subject.isprintable():
        raise BadToken("the ID token has no usable sub")
    return subject


def claims_of(token: Mapping[str, Any], userinfo: Mapping[str, Any], groups_claim: str) -> Claims:
    """Return what the server reads; what the token lacks is from userinfo, whose sub is the same."""
    source = token if token.get("email") else userinfo
    email = source.get("email")
    is_verified = source.get("email_verified")
    groups = token.get(groups_claim, userinfo.get(groups_claim))
    return Claims(
        token["sub"],
        email.strip() if isinstance(email, str) else None,
        # A string where the provider has no other type for claims.
        is_verified is True or is_verified == "true",
        _groups(groups),
    )


def _groups(value: Any) -> frozenset[str] | None:
    """Return the names of groups: of a list, of a single one, or the keys of an object."""
    if isinstance(value, str):
        return frozenset((value,))
    if isinstance(value, list | dict):
        return frozenset(name for name in value if isinstance(name, str))
    if value is not None:
        log.warning("the provider's claim of groups is no list, text or object")
    return None
