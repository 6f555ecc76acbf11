"""The door in a real Chromium: a passkey of a virtual device, and single sign-on under our content policy."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from assentry.core.authority import Principal
from assentry.engine.policies import apply_policy
from assentry.server.serving import Address, Standing, standing
from assentry.settings import Settings, load
from tests.browser.chromium import chromium
from tests.server.building import PEOPLE
from tests.server.provider import CLIENT, SECRET, Provider, provider


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with chromium() as browser:
        found = await browser.new_page()
        complaints: list[str] = []
        found.on(
            "console", lambda message: complaints.append(message.text) if "Content Security" in message.text else None
        )
        yield found
        assert complaints == []


async def opened(server: Standing) -> str:
    """How a browser reaches it: by a name, as passkeys want one."""
    room = await server.premises.room("default")
    await apply_policy(room.desk.store, "default", PEOPLE, Principal("ada"))
    await room.desk.judgement.refresh()
    return server.url.replace("127.0.0.1", "localhost")


async def test_a_passkey_is_added_and_lets_in(page: Page, tmp_path: Path) -> None:
    settings = load({"database": str(tmp_path / "assentry.db")})
    async with standing(settings, Address(port=0), works=False) as server:
        url = await opened(server)
        device = await page.context.new_cdp_session(page)
        await device.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
            "isUserVerified": True, "automaticPresenceSimulation": True,
        }  # fmt: skip
        await device.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        room = await server.premises.room("default")
        link = await room.identities.link(Principal("ada"), "ada")
        await page.goto(f"{url}/enter?link={link}")
        await page.get_by_role("button", name="Come in").click()
        await page.goto(f"{url}/you")
        await page.get_by_label("Name of the device").fill("the laptop")
        await page.get_by_role("button", name="Add a passkey").click()
        await expect(page.get_by_text("the laptop, since")).to_be_visible()
        await page.goto(f"{url}/prove?next=/you")
        await page.get_by_role("button", name="Use a passkey").click()
        await expect(page.get_by_role("heading", name="How you prove")).to_be_visible()
        await page.context.clear_cookies()
        await page.goto(f"{url}/login?next=/you")
        await page.get_by_role("button", name="Log in with a passkey").click()
        await expect(page.get_by_role("heading", name="How you prove that you are ada")).to_be_visible()


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


async def test_single_sign_on_goes_there_and_back_by_itself(page: Page, tmp_path: Path, there: Provider) -> None:
    (tmp_path / "secret").write_text(SECRET)
    settings = Settings(
        database=str(tmp_path / "assentry.db"), sso_issuer=there.url, sso_client_id=CLIENT,
        sso_client_secret_file=str(tmp_path / "secret"),
    )  # fmt: skip
    async with standing(settings, Address(port=0), works=False) as server:
        url = await opened(server)
        await page.goto(f"{url}/login?next=/you")
        await page.get_by_role("button", name="Log in with 127.0.0.1").click()
        await expect(page.get_by_role("heading", name="How you prove that you are ada")).to_be_visible()
        await page.goto(f"{url}/prove?next=/you")
        await page.get_by_role("button", name="Log in once more").click()
        await expect(page.get_by_role("heading", name="How you prove that you are ada")).to_be_visible()
        assert there.asked[-1]["prompt"] == "login"
