"""The protocol of certificate authorities: ACME (RFC 8555), by the library of certbot, with the challenge http-01.

Everything here blocks on the network and runs in a thread. The library is imported with the first use; after an order
the process holds 19 MB more. An `AcmeError` has a message for the log: what the authority refused, and what to do.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tally.errors import log, where_it_failed
from tally.resources import tally_version

# Of one request, and of an order from the challenges to the certificate.
TIMEOUT_S = 30
ORDER_S = 180
# Texts of an authority are shortened to this.
_MAX_TEXT = 500


class AcmeError(Exception):
    """The reason why there is no certificate. `wait_s`: the delay that the authority requests."""

    def __init__(self, message: str, wait_s: float = 0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def new_key() -> bytes:
    """Return a new private key (ECDSA, P-256) in PEM format."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    made = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return made.private_bytes(*form, serialization.NoEncryption())


class Authority:
    """A certificate authority, with the account of a key."""

    def __init__(self, directory: str, account_key: bytes) -> None:
        """Read the directory. Raises AcmeError."""
        from acme import client
        from cryptography.hazmat.primitives import serialization
        from josepy.jwa import ES256
        from josepy.jwk import JWKEC

        self._url, self._wait_s = directory, 0.0
        self._key = JWKEC(key=serialization.load_pem_private_key(account_key, None))
        agent = f"tally/{tally_version()}"
        self._network = client.ClientNetwork(self._key, alg=ES256, user_agent=agent, timeout=TIMEOUT_S)
        self._network.session.hooks["response"].append(self._note_wait)
        self._client = self._done(
            lambda: client.ClientV2(client.ClientV2.get_directory(directory, self._network), self._network)
        )

    def certificate(self, domains: Sequence[str], email: str, publish: Callable[[Mapping[str, str]], None]) -> bytes:
        """Return a new key and the certificate with its chain, in PEM format. Raises AcmeError.

        `publish` is called with the response to each token, before the authority requests them, and with none after.
        """

        def order() -> bytes:
            from acme import challenges, crypto_util, messages

            self._use_account(email)
            key = new_key()
            made = self._client.new_order(crypto_util.make_csr(key, list(domains)))
            pending = [entry.body for entry in made.authorizations if entry.body.status != messages.STATUS_VALID]
            chosen = [
                body
                for authorization in pending
                for body in authorization.challenges
                if isinstance(body.chall, challenges.HTTP01)
            ]
            if len(chosen) < len(pending):
                raise AcmeError("the certificate authority offers no validation by HTTP (http-01)")
            # The path ends with the token.
            publish({body.path.rpartition("/")[2]: body.validation(self._key) for body in chosen})
            for body in chosen:
                self._client.answer_challenge(body, body.response(self._key))
            # The library compares it with the local time without a zone.
            finished = self._client.poll_and_finalize(made, datetime.now() + timedelta(seconds=ORDER_S))
            return key + str(finished.fullchain_pem).encode()

        try:
            issued: bytes = self._done(order)
            return issued
        finally:
            publish({})

    def renewal_times_s(self, certificate: bytes) -> tuple[float | None, float]:
        """Return when to renew a certificate, if the authority returns a time (RFC 9773), and when to request it again,
        in seconds.

        Raises AcmeError.
        """
        renewal, again = self._done(lambda: self._client.renewal_time(certificate))
        return renewal and renewal.timestamp(), again.timestamp()

    def _use_account(self, email: str) -> None:
        """Use the account of the key, which is created if the authority has none of this key."""
        from acme import errors, messages

        try:
            wanted = messages.NewRegistration.from_data(email=email or None, terms_of_service_agreed=True)
            self._client.new_account(wanted)
        except errors.ConflictError as known:
            body = messages.Registration()
            self._network.account = messages.RegistrationResource(body=body, uri=known.location)
        else:
            terms = getattr(self._client.directory.meta, "terms_of_service", None) or self._url
            log.info("an account was made, which agrees to the terms of service of the authority: %s", _plain(terms))

    def _note_wait(self, response: Any, *_: object, **__: object) -> None:
        """Store the delay that the authority requests before more requests are sent."""
        from acme.client import ClientV2

        if response.status_code in (429, 503) and "Retry-After" in response.headers:
            self._wait_s = (ClientV2.retry_after(response, 0) - datetime.now()).total_seconds()

    def _done(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call; raise AcmeError for every exception of the library."""
        try:
            return call()
        except AcmeError:
            raise
        except Exception as failure:
            raise AcmeError(_plain(self._reason(failure)), self._wait_s) from failure

    def _reason(self, failure: Exception) -> str:
        import requests
        from acme import errors, messages

        if isinstance(failure, errors.ValidationError):
            return (
                f"validation failed: {'; '.join(_refused(failure))}. Let A and AAAA records of the domain name this"
                " server, and port 80 reach it"
            )
        if isinstance(failure, errors.IssuanceError):
            failure = failure.error
        if isinstance(failure, messages.Error):
            parts = [
                f"{problem.identifier.value}: {problem.detail}"
                for problem in failure.subproblems or ()
                if problem.identifier
            ]
            return f"the certificate authority refused: {'; '.join([failure.detail or failure.typ, *parts])}"
        if isinstance(failure, errors.TimeoutError):
            return f"the certificate authority did not answer the order within {ORDER_S} seconds"
        if isinstance(failure, errors.ARIError) and isinstance(failure.__cause__, Exception):
            return self._reason(failure.__cause__)
        if isinstance(failure, requests.RequestException):
            return f"{self._url} cannot be reached ({failure})"
        if isinstance(failure, errors.Error):
            return f"the certificate authority's response cannot be used ({failure})"
        return where_it_failed(failure)


def _refused(failure: Any) -> Iterator[str]:
    for each in failure.failed_authzrs:
        for challenge in each.body.challenges:
            if challenge.error is not None:
                yield f"{each.body.identifier.value}: {challenge.error.detail or challenge.error.typ}"


def _plain(text: str) -> str:
    """Return a text of an authority for a log and a terminal."""
    return re.sub(r"[^\x20-\x7e]+", " ", text)[:_MAX_TEXT]
