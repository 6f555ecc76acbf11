"""The first start: somebody who may change things gets in by a link that works once, and there is no password."""

import pytest

from assentry.core.credential import CredentialKind
from assentry.engine.os_user import os_user
from assentry.server.serving import Standing
from tests.server.building import PEOPLE, URL, Building

MAPPED = f"people: {{ada: {{roles: [operator]}}, ben: {{os_users: [{os_user()}]}}}}"


def standing(house: Building) -> Standing:
    return Standing(URL, house.premises, lambda: None)


async def who_enters(house: Building) -> str:
    link = await standing(house).link()
    browser = house.browser()
    await browser.enter(link.partition("link=")[2])
    return await browser.who()


async def test_who_sits_at_the_machine_comes_in_under_their_name(house: Building) -> None:
    await house.policy(MAPPED)
    assert await who_enters(house) == "ben"
    assert await who_enters(house) == "ben", "a session ends, and then nobody could sign in"


async def test_once_somebody_can_sign_in_there_is_no_link_even_for_who_sits_at_the_machine(house: Building) -> None:
    await house.policy(MAPPED)
    await house.password("ada")
    assert await standing(house).link() == ""


async def test_where_nobody_is_named_the_one_persons_password_is_enough(house: Building) -> None:
    await house.policy("{}")
    assert await who_enters(house) == os_user()
    await house.password(os_user())
    assert await standing(house).link() == ""


async def test_where_nobody_can_come_in_yet_an_operator_can(house: Building) -> None:
    assert await who_enters(house) == "ada"
    link = (await house.credentials(CredentialKind.LINK, "ada"))[0]
    assert link.made_by == os_user()
    assert not await house.credentials(CredentialKind.ACCOUNT)


async def test_once_somebody_can_come_in_a_stranger_at_the_machine_cannot(house: Building) -> None:
    await house.password("ben")
    assert await standing(house).link() == ""
    await house.policy(PEOPLE.replace("ben:", "zoe:"))
    assert await who_enters(house) == "ada", "an account of nobody in the policy lets nobody in"


@pytest.mark.parametrize("policy", ["autonomy: balanced", "{}"])
async def test_where_nobody_is_named_there_is_one_person(house: Building, policy: str) -> None:
    await house.policy(policy)
    assert await who_enters(house) == os_user()
