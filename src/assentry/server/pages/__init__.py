"""The pages where people decide. They work without JavaScript; with it they are live and follow the keyboard."""

from fastapi import APIRouter

from assentry.server.pages import alike, door, inbox, passkeys, record, reference, rules, runs, settings, similar, sso

router = APIRouter(include_in_schema=False)
for part in (door, sso, passkeys, inbox, alike, similar, runs, record, rules, settings, reference):
    router.include_router(part.router)
