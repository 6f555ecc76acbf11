"""A device with passkeys, in software: it makes keys and signs what it is asked to, and lies when asked to."""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tests.server.building import HOST, URL


@dataclass
class Authenticator:
    """One device; its flags say that somebody touched it and that it knew them."""

    rp_id: str = HOST
    origin: str = URL
    flags: int = 0x05
    count: int = 0
    keys: dict[bytes, ec.EllipticCurvePrivateKey] = field(default_factory=dict)

    def made(self, asked: dict[str, Any]) -> str:
        """The answer to being asked for a new key."""
        key, name = ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)
        self.keys[name] = key
        point = key.public_key().public_numbers()
        public = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")})
        attested = bytes(16) + len(name).to_bytes(2, "big") + name + public
        data = self._data(self.flags | 0x40) + attested
        response = {
            "clientDataJSON": self._client("webauthn.create", asked),
            "attestationObject": b64(cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})),
        }
        return self._answer(name, response)

    def signed(self, asked: dict[str, Any], name: bytes = b"") -> str:
        """The answer to being asked for a signature."""
        self.count += 1
        name = name or next(iter(self.keys))
        data, client = self._data(self.flags), self._client("webauthn.get", asked)
        text = data + hashlib.sha256(unb64(client)).digest()
        signature = self.keys[name].sign(text, ec.ECDSA(hashes.SHA256()))
        response = {"clientDataJSON": client, "authenticatorData": b64(data), "signature": b64(signature)}
        return self._answer(name, response)

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(self.rp_id.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, what: str, asked: dict[str, Any]) -> str:
        return b64(json.dumps({"type": what, "challenge": asked["challenge"], "origin": self.origin}).encode())

    def _answer(self, name: bytes, response: dict[str, str]) -> str:
        whole = {"id": b64(name), "rawId": b64(name), "type": "public-key", "response": response}
        return json.dumps({**whole, "clientExtensionResults": {}})


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
