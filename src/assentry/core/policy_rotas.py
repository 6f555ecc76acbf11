"""The `rotas:` of a policy document, read and written."""

from datetime import datetime

from assentry.core.action import Json
from assentry.core.policy_text import Node, Reader, quoted
from assentry.core.rota import Rota, Turn

ROTA_KEYS = ("turns", "weekly", "from")
TURN_KEYS = ("person", "from", "to")


def read_rotas(reader: Reader, node: Node | None) -> tuple[Rota, ...]:
    """Every rota that the document has; what is wrong with it is among the complaints."""
    found: list[Rota] = []
    for name, each in ({} if node is None else reader.entries(node, "rotas")).items():
        table = reader.table(each, f"rotas.{name}", ROTA_KEYS)
        turns = [_turn(reader, one, name) for one in reader.items(table["turns"], "turns")] if "turns" in table else []
        weekly = reader.texts(table["weekly"], "weekly") if "weekly" in table else ()
        begins = _moment(reader, table["from"], f"rota {quoted(name)}: from") if "from" in table else None
        if each.is_map and not (turns or weekly):
            reader.complaints.add(each.line, f"the rota {quoted(name)} is empty; give it turns: or weekly:")
        if ("weekly" in table) != ("from" in table):
            text = (
                f"the rota {quoted(name)} needs weekly: and from: together, who takes turns and when the first begins"
            )
            reader.complaints.add(each.line, text)
        found.append(Rota(name, tuple(turn for turn in turns if turn is not None), weekly, begins))
    return tuple(found)


def rota_document(rota: Rota) -> dict[str, Json]:
    """The rota as it would be read again."""
    made: dict[str, Json] = {}
    if rota.turns:
        made["turns"] = [
            {"person": turn.person, "from": turn.begins.isoformat(), "to": turn.ends.isoformat()} for turn in rota.turns
        ]
    if rota.weekly and rota.begins is not None:
        made |= {"weekly": list(rota.weekly), "from": rota.begins.isoformat()}
    return made


def _turn(reader: Reader, node: Node, rota: str) -> Turn | None:
    table = reader.table(node, "a turn", TURN_KEYS)
    if missing := [key for key in TURN_KEYS if key not in table]:
        if node.is_map:
            reader.complaints.add(node.line, f"a turn of {rota} needs {', '.join(missing)}")
        return None
    person = reader.text(table["person"], "person")
    begins, ends = (_moment(reader, table[key], f"rota {quoted(rota)}: {key} of a turn") for key in ("from", "to"))
    if person is None or begins is None or ends is None:
        return None
    if ends <= begins:
        reader.complaints.add(node.line, f"a turn of {rota} ends before it begins; put from: before to:")
    return Turn(person, begins, ends)


def _moment(reader: Reader, node: Node, what: str) -> datetime | None:
    """A date and time with its offset from UTC, so that it is the same for everybody."""
    text = reader.text(node, what, 40)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        reader.complaints.add(
            node.line,
            f"{what} needs a date-time with a UTC offset, such as 2026-01-05T09:00:00+00:00; {quoted(text)} is not one",
        )
        return None
    return found
