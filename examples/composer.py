"""A composer writes to a customer. The draft is reviewed, sent back with a wish, written again, and only then mailed.

    python examples/composer.py            you review, in a second terminal
    python examples/composer.py --script   a scripted person reviews

The mail is real: it goes by SMTP to a server that this program starts on this machine and that keeps it in `mail/`
(MAIL_SERVER=host:port names another one). It needs aiosmtpd: pip install 'assentry[demo]'.
"""

import asyncio
import os
import smtplib
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import assentry
import playground
from playground import Says, did

playground.enter(__name__)
gate = assentry.open(agent="composer")

SERVER = Path("mail-server")
FIRST = """\
Dear Ms Okafor,

Your parcel is late. This is due to unforeseen operational circumstances in our logistics network, for which we are
not responsible. It will arrive in due course.

The shop"""
SECOND = """\
Dear Ms Okafor,

Your parcel is late, and we are sorry. It left our warehouse this morning and arrives on Thursday.

The shop"""


@gate.guard(reversible=True, reach="service", outside=False)
async def open_case(customer: str) -> str:
    """Open a case for a customer."""
    return did(f"case opened for {customer}")


@gate.guard(reversible=False, outside=True, says="Mail {to.count} people: {subject}")
def send_email(to: list[str], subject: str, body: str) -> str:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "shop@example.org", ", ".join(to), subject
    message["Message-ID"] = f"<{assentry.idempotency_key()}@example.org>"
    message.set_content(body)
    host, port = SERVER.read_text().split(":")
    with smtplib.SMTP(host, int(port), timeout=10) as connection:
        connection.send_message(message)
    return did(f"mailed {', '.join(to)}: {subject}")


def write(draft: Any) -> dict[str, Any]:
    """The arguments of `send_email`. A model would be given `draft.args` and `draft.instructions`."""
    if draft is None:
        return {"to": ["okafor@example.com"], "subject": "Your parcel", "body": FIRST}
    return {**draft.args, "body": SECOND}


async def work(customer: str) -> str:
    await open_case(customer)
    try:
        return await assentry.current_run().revise(send_email, write)
    except assentry.Denied as denied:
        return f"not sent: {denied.reason}"


@gate.host("composer")
async def resume(state: dict[str, str], resumption: Any) -> str:
    print(f"  resumed {resumption.summary}", flush=True)
    return await work(state["customer"])


class Postbox:
    """A mail server that keeps what it gets."""

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: ARG002, N802
        (Path("mail") / f"{len(list(Path('mail').iterdir())) + 1}.eml").write_bytes(envelope.content)
        return "250 kept"


async def begin() -> None:
    if "MAIL_SERVER" not in os.environ:
        from aiosmtpd.smtp import SMTP

        Path("mail").mkdir()
        server = await asyncio.get_running_loop().create_server(lambda: SMTP(Postbox()), "127.0.0.1", 0)
        os.environ["MAIL_SERVER"] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    SERVER.write_text(os.environ["MAIL_SERVER"])
    async with gate.run("Answer Ms Okafor", host="composer") as run:
        run.snapshot({"customer": "Ms Okafor"})
        run.outcome = await work("Ms Okafor")


SCRIPT = [Says("revise", "say sorry, name the day, and do not blame anybody"), Says("approve")]

if __name__ == "__main__":
    playground.play(gate, begin, SCRIPT)
