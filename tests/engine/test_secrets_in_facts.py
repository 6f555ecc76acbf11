"""Facts and titles are read off what was given, and still tell nothing of what is sealed."""

from typing import Annotated, Any

import pytest

import assentry

PASSWORD = "S3cretPassw0rd"


@pytest.mark.parametrize(
    ("name", "field", "given"),
    [
        ("delete_page", "url", f"https://deploy:{PASSWORD}@db.example.com/x"),
        ("bash", "command", f"git push https://oauth2:{PASSWORD}@gitlab.example.com/x.git"),
        ("send_webhook", "to", f"https://u:{PASSWORD}@evil.example/"),
        ("send_webhook", "body", f"call https://u:{PASSWORD}@evil.example/ today"),
    ],
)
async def test_the_password_in_an_address_stands_nowhere(house: Any, name: str, field: str, given: str) -> None:
    ran: list[str] = []
    namespace: dict[str, Any] = {"ran": ran}
    exec(f"async def {name}({field}: str) -> None:\n    ran.append({field})", namespace)
    guarded = house.gate.guard(reversible=False, patience=0)(namespace[name])
    with pytest.raises(assentry.Parked) as parked:
        await guarded(given)
    request = await house.desk.store.request("default", parked.value.request_id)
    brief = await house.inbox.brief(request.id)
    assert PASSWORD.lower() not in f"{request!r} {brief!r} {parked.value}".lower()
    await house.inbox.approve(house.me, request.id, confirm=brief.phrase)
    await house.gate.resume(request.id)
    assert ran == [given]


async def test_a_sealed_number_is_not_told_with_commas(house: Any) -> None:
    @house.gate.guard(reversible=False, patience=0)
    async def set_budget(budget: Annotated[str, assentry.Secret]) -> None:
        pass

    with pytest.raises(assentry.Parked) as parked:
        await set_budget("4711815")
    request = await house.desk.store.request("default", parked.value.request_id)
    told = f"{request!r} {await house.inbox.brief(request.id)!r}".replace(",", "")
    assert "4711815" not in told


async def test_a_secret_in_small_letters_is_one(house: Any) -> None:
    @house.gate.guard(reversible=False, patience=0)
    async def delete_page(url: str, key: Annotated[str, assentry.Secret]) -> None:
        pass

    with pytest.raises(assentry.Parked) as parked:
        await delete_page("https://Tenant-ABCDEF.example.com/x", "Tenant-ABCDEF")
    request = await house.desk.store.request("default", parked.value.request_id)
    assert "tenant-abcdef" not in repr(request).lower()
