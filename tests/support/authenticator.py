"""An authenticator of WebAuthn in software, which signs whatever a test asks for, also what a browser would refuse.

The tests of pages use that of Chromium.
"""

import json
import secrets
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256
from fido2.webauthn import Aaguid, AttestedCredentialData, AuthenticatorData

from tally.accounts.webauthn import decoded, encoded

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40
ORIGIN = "https://stats.example.com"


class Authenticator:
    """One passkey of one person for one server. `counts`: it counts its signatures."""

    def __init__(self, origin: str = ORIGIN, counts: bool = True) -> None:
        self.origin, self.rp_id, self.counts = origin, origin.rpartition("/")[2].partition(":")[0], counts
        self.id, self.key = secrets.token_bytes(32), ec.generate_private_key(ec.SECP256R1())
        self.count, self.handle = 0, b""

    def create(self, options: dict[str, Any], **changed: Any) -> dict[str, Any]:
        """Return the response to options of `navigator.credentials.create`; `changed` are parts of it."""
        self.handle = decoded(options["user"]["id"])
        client_data = self._client_data("webauthn.create", options["challenge"], changed)
        public = changed.get("public_key") or ES256.from_cryptography_key(self.key.public_key())
        stored = AttestedCredentialData.create(Aaguid.NONE, self.id, public)
        flags = changed.get("flags", PRESENT | VERIFIED) | ATTESTED
        data = AuthenticatorData.create(self._rp_hash(changed), flags, self._counted(changed), stored)
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": bytes(data)})
        return self._credential(clientDataJSON=client_data, attestationObject=attestation)

    def get(self, options: dict[str, Any], **changed: Any) -> dict[str, Any]:
        """Return the response to options of `navigator.credentials.get`; `changed` are parts of it."""
        client_data = self._client_data("webauthn.get", options["challenge"], changed)
        flags = changed.get("flags", PRESENT | VERIFIED)
        data = bytes(AuthenticatorData.create(self._rp_hash(changed), flags, self._counted(changed)))
        key = changed.get("key", self.key)
        signature = key.sign(data + sha256(client_data).digest(), ec.ECDSA(hashes.SHA256()))
        handle = changed.get("handle", self.handle)
        return self._credential(
            clientDataJSON=client_data, authenticatorData=data, signature=signature, userHandle=handle
        )

    def _client_data(self, kind: str, challenge: str, changed: dict[str, Any]) -> bytes:
        data = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(data | changed.get("client_data", {})).encode()

    def _rp_hash(self, changed: dict[str, Any]) -> bytes:
        return sha256(changed.get("rp_id", self.rp_id).encode()).digest()

    def _counted(self, changed: dict[str, Any]) -> int:
        self.count = changed.get("count", self.count + self.counts)
        return int(self.count)

    def _credential(self, **response: bytes) -> dict[str, Any]:
        fields = {name: encoded(value) for name, value in response.items()}
        return {"id": encoded(self.id), "rawId": encoded(self.id), "type": "public-key", "response": fields}
