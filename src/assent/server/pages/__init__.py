"""The pages where people decide. They work without JavaScript; with it they are live and follow the keyboard."""

from fastapi import APIRouter

from assent.server.pages import door, inbox

router = APIRouter(include_in_schema=False)
router.include_router(door.router)
router.include_router(inbox.router)
