"""Passkeys: keys on people's devices. Asking for one, adding one, and believing what one signed.

The library that checks signatures is imported when the first passkey is used; every server has this module.
"""

import hashlib
import secrets
from dataclasses import dataclass

from assentry.core.action import Json
from assentry.core.authority import Principal
from assentry.core.credential import Credential, CredentialKind
from assentry.core.proving import ended, given, noted
from assentry.engine.challenges import Challenges
from assentry.errors import InvalidDecision, NotAllowed, NotFound, StaleRequest
from assentry.ports import Store

_MOST = 20


@dataclass(frozen=True, slots=True)
class Site:
    """Where a passkey is used: it works nowhere else."""

    rp_id: str
    origin: str


class Passkeys:
    """The passkeys of one workspace."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace
        self._challenges = Challenges(store, workspace)

    async def of(self, person: str) -> tuple[Credential, ...]:
        """The passkeys that somebody has."""
        found = await self._store.credentials(self._workspace, CredentialKind.PASSKEY, holder=person)
        return tuple(each for each in found if each.proof and each.ended_at is None)

    async def ask_to_add(self, person: str, site: Site) -> str:
        """What the browser is asked for, as JSON: a new key of this person."""
        from webauthn import generate_registration_options, options_to_json
        from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
        from webauthn.helpers.structs import (
            AuthenticatorSelectionCriteria,
            PublicKeyCredentialDescriptor,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        challenge, there = secrets.token_bytes(32), await self.of(person)
        if len(there) >= _MOST:
            raise InvalidDecision(f"nobody needs more than {_MOST} passkeys; remove one first")
        await self._challenges.ask(bytes_to_base64url(challenge), "passkey add", person)
        options = generate_registration_options(
            rp_id=site.rp_id, rp_name="Assentry", user_name=person, challenge=challenge,
            user_id=self._handle(person),
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.PREFERRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=base64url_to_bytes(each.id)) for each in there],
        )  # fmt: skip
        return options_to_json(options)

    async def add(self, person: str, answer: dict[str, Json], site: Site, name: str) -> Credential:
        """The key that the browser made is this person's."""
        from webauthn import verify_registration_response
        from webauthn.helpers import bytes_to_base64url
        from webauthn.helpers.exceptions import WebAuthnException

        challenge = await self._answered(answer, "passkey add", person)
        try:
            made = verify_registration_response(
                credential=answer, expected_challenge=challenge, expected_rp_id=site.rp_id,
                expected_origin=site.origin, require_user_verification=True,
            )  # fmt: skip
        except (WebAuthnException, ValueError, TypeError, KeyError, RecursionError):
            raise NotAllowed("this passkey could not be checked; try again", principal=person) from None
        about: dict[str, Json] = {"name": name[:100], "sign_count": made.sign_count}
        passkey = Credential(
            self._workspace, CredentialKind.PASSKEY, bytes_to_base64url(made.credential_id), person,
            await self._store.now(), person, proof=bytes_to_base64url(made.credential_public_key), about=about,
        )  # fmt: skip
        change = given(passkey, person)
        try:
            await self._store.transact(self._workspace, None, lambda _: change)
        except StaleRequest:
            raise NotAllowed("this passkey is known here already", principal=person) from None
        return passkey

    async def ask(self, site: Site, person: str = "") -> str:
        """What the browser is asked for, as JSON: a signature by a key of this person, or by whoever has one."""
        from webauthn import generate_authentication_options, options_to_json
        from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
        from webauthn.helpers.structs import PublicKeyCredentialDescriptor, UserVerificationRequirement

        challenge = secrets.token_bytes(32)
        await self._challenges.ask(bytes_to_base64url(challenge), "passkey use", person)
        theirs = await self.of(person) if person else ()
        options = generate_authentication_options(
            rp_id=site.rp_id, challenge=challenge, user_verification=UserVerificationRequirement.REQUIRED,
            allow_credentials=[PublicKeyCredentialDescriptor(id=base64url_to_bytes(each.id)) for each in theirs],
        )  # fmt: skip
        return options_to_json(options)

    async def used(self, answer: dict[str, Json], site: Site, person: str = "") -> str:
        """Whose key signed the challenge, which is used up. A key that was copied shows by its count."""
        from webauthn import verify_authentication_response
        from webauthn.helpers import base64url_to_bytes
        from webauthn.helpers.exceptions import WebAuthnException

        challenge = await self._answered(answer, "passkey use", person)
        key = answer.get("id")
        known = (
            await self._store.credential(self._workspace, CredentialKind.PASSKEY, key)
            if isinstance(key, str) and len(key) < 2_000 and key.isascii() and key.isprintable()
            else None
        )
        if known is None or not known.proof or known.ended_at is not None or (person and known.holder != person):
            raise NotAllowed("this passkey is not known here; use another, or come in another way", principal=person)
        count = known.about.get("sign_count")
        try:
            found = verify_authentication_response(
                credential=answer, expected_challenge=challenge, expected_rp_id=site.rp_id,
                expected_origin=site.origin, credential_public_key=base64url_to_bytes(known.proof),
                credential_current_sign_count=count if isinstance(count, int) else 0, require_user_verification=True,
            )  # fmt: skip
            change = noted(known, sign_count=found.new_sign_count)
            await self._store.transact(self._workspace, None, lambda _: change)
        except (WebAuthnException, ValueError, TypeError, KeyError, RecursionError, StaleRequest):
            raise NotAllowed("this passkey did not prove who you are; try again", principal=person) from None
        return known.holder

    async def remove(self, by: Principal, person: str, passkey: str) -> None:
        """The key is nobody's."""
        found = next((each for each in await self.of(person) if each.id == passkey), None)
        if found is None:
            raise NotFound(f"{person} has no such passkey")
        change = ended(found, by.name, await self._store.now())
        await self._store.transact(self._workspace, None, lambda _: change)

    async def _answered(self, answer: dict[str, Json], purpose: str, person: str) -> bytes:
        """The challenge that this answers, which was asked of this person and is used up."""
        from webauthn.helpers import base64url_to_bytes, bytes_to_base64url, parse_client_data_json
        from webauthn.helpers.exceptions import WebAuthnException

        response = answer.get("response")
        data = response.get("clientDataJSON") if isinstance(response, dict) else None
        try:
            challenge = parse_client_data_json(base64url_to_bytes(str(data))).challenge
        except (WebAuthnException, ValueError, TypeError, KeyError, RecursionError):
            raise NotAllowed("this is no answer of a passkey; try again", principal=person) from None
        asked = await self._challenges.take(bytes_to_base64url(challenge), purpose)
        if asked is None or asked.holder != person:
            raise NotAllowed("this took too long, or was used already; try again", principal=person)
        return challenge

    def _handle(self, person: str) -> bytes:
        return hashlib.sha256(f"{self._workspace}:{person}".encode()).digest()
