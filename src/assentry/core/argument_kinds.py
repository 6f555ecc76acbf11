"""What a field of a call's arguments is for, told from the field's name alone."""

from decimal import Decimal
from functools import lru_cache

from assentry.core.money_text import CODES
from assentry.core.names import singular, words
from assentry.core.secret_text import is_secret_name, is_token_name

RECIPIENT = 1 << 0
AMOUNT = 1 << 1
CURRENCY = 1 << 2
COUNT = 1 << 3
SIZE = 1 << 4
PLACE = 1 << 5
PATH = 1 << 6
MAYBE_PATH = 1 << 7
COMMAND = 1 << 8
CODE = 1 << 9
SQL = 1 << 10
MAYBE_SQL = 1 << 11
TARGET = 1 << 12
FILTER = 1 << 13
EVERYTHING = 1 << 14
NOT_COUNTED = 1 << 15
SECRET = 1 << 16
OPERATION = 1 << 17
SENDER = 1 << 18
PROSE = 1 << 19
RAW = 1 << 20
LISTED = 1 << 21
"""Named in the plural: what stands here is several things, however they are written."""
ROWS = 1 << 22
"""A list of lists here is a table, and its rows are what counts."""
RECORD = 1 << 23
"""An amount, or a whole record of one."""
FLAG = 1 << 24
"""A yes or no here only says what to show."""
QUERY = 1 << 25
MONEY = 1 << 26
"""An amount whose name says that it is money; `amount`, `total` and `sum` may be of anything."""
WHERE = PLACE | PATH | TARGET | FILTER
PROGRAM = COMMAND | CODE | SQL

_BY_LAST_WORD: tuple[tuple[int, str], ...] = (
    (RECIPIENT, """recipient email attendee participant invitee receiver addressee channel phone collaborator cc bcc
        mailto recepient"""),
    (AMOUNT, "amount price total cost fee sum budget subtotal salary payment refund cent usd eur gbp chf jpy"),
    (CURRENCY, "currency"),
    (COUNT, "count limit quantity qty num"),
    (SIZE, "byte filesize size kb mb gb tb"),
    (PLACE, """env environment stage tier cluster namespace context profile host hostname server database db url uri
        endpoint workspace account app application service project site domain deployment instance bucket connection
        dsn target resource"""),
    (PATH, "path file filename filepath dir directory folder cwd workdir"),
    (PATH | MAYBE_PATH, "src dst dest source destination output root target location"),
    (COMMAND, "command cmd shell bash commandline script argv"),
    (CODE, "code python javascript expression program"),
    (SQL, "sql statement"),
    (SQL | MAYBE_SQL | QUERY, "query"),
    (TARGET, """id file path pattern glob target selector user recipient to channel resource record item table email
        scope bucket folder directory object entry row"""),
    (FILTER, "filter where condition criteria selector"),
    (NOT_COUNTED, """column field tag label arg option choice header select sort vector embedding coordinate history
        tool step line scope format language stop include exclude property projection position point bbox color
        dimension metric filter part keyword expand"""),
    (OPERATION, "action operation method verb op"),
    (SENDER, "from sender"),
    (PROSE, """body text content subject html message description note comment summary title markdown caption prompt
        instruction detail reason signature footer"""),
    (RAW, "raw mime eml rfc822"),
    (ROWS, "value row cell data table matrix grid sheet"),
    (RECORD, "payment refund budget fee cost price salary total sum"),
)  # fmt: skip
_BY_WHOLE_NAME: tuple[tuple[int, str], ...] = (
    (RECIPIENT, "to send_to sent_to to_email to_address to_user to_number"),
    (CURRENCY, "currency_code"),
    (COUNT, "n max_results top_k batch_size page_size max_items how_many number_of_items"),
    (EVERYTHING, """all everything select_all all_users all_files delete_all apply_to_all include_all everyone
        match_all"""),
    (SENDER, "from_email from_address sender_email sender_address reply_to reply_to_email"),
)  # fmt: skip
_MONEY_WORDS = frozenset(
    "price cost fee budget subtotal salary payment refund cent pay paid due money deposit discount".split()
)
_NOT_SIZE = frozenset("batch page font image window pool sample chunk step vm instance".split())
_ONE_THING = NOT_COUNTED | AMOUNT | CURRENCY | COUNT | SIZE | PROSE | PROGRAM | OPERATION
"""Kinds that are one value even where they are named in the plural."""
_SHOWS = frozenset("include show with has is return returns hide no get display exclude needs calculate".split())
SUMS = frozenset("value amount units unit major minor number gross net total sum usd eur gbp chf jpy cents".split())
"""What the sum itself is called inside an object that stands for an amount, or the number in one for a count."""
WHOM = frozenset("id value number phone address user username handle channel email mail".split())
"""What whoever is meant is called inside an object that stands for a recipient."""
_LEAVES_OUT = tuple(
    frozenset(row.split())
    for row in (
        "exclude excludes excluded excluding exclusion exclusions",
        "except excepted excepting exception exceptions",
        "skip skips skipped skipping",
        "keep keeps kept keeping",
        "ignore ignores ignored ignoring",
        "omit omits omitted omitting",
        "exempt exempted exemption exemptions",
        "preserve preserved retain retained spare spared",
        "without",
        "not",
        "but",
    )
)
"""Words in the name of an argument that say that the action leaves alone what stands there."""
_PERHAPS_LEFT_OUT = frozenset(
    "excluded excepted skipped kept ignored omitted exempted preserved retained spared not but".split()
)
"""`skipped_jobs` are left alone by one action and run again by another; `not_active_ids` are deleted."""
_NEVER = {"reply_to": RECIPIENT, "from_email": RECIPIENT, "sender_email": RECIPIENT, "max_tokens": COUNT}


def _table(rows: tuple[tuple[int, str], ...]) -> dict[str, int]:
    table: dict[str, int] = {}
    for kind, names in rows:
        for name in names.split():
            table[name] = table.get(name, 0) | kind
    return table


_LAST = _table(_BY_LAST_WORD)
_WHOLE = _table(_BY_WHOLE_NAME)
_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


@lru_cache(maxsize=8192)
def of(key: str) -> int:
    """The kinds of the field `key`, as bits; 0 for a field whose name says nothing."""
    parts = words(key)
    if not parts:
        return 0
    whole, last = "_".join(parts), singular(parts[-1])
    kind = _WHOLE.get(whole, 0) | _LAST.get(last, 0) | _LAST.get(whole.replace("_", ""), 0)
    if kind & SIZE and len(parts) > 1 and parts[-2] in _NOT_SIZE:
        kind &= ~SIZE
    if last == "size" and len(parts) == 1:
        kind |= SIZE
    if last != parts[-1] and not kind & _ONE_THING:
        kind |= LISTED
    if kind & AMOUNT and any(singular(part) in _MONEY_WORDS or part.upper() in CODES for part in parts):
        kind |= MONEY
    if kind & AMOUNT and parts[0] in _SHOWS:
        kind |= FLAG
    if is_secret_name(key) or is_token_name(key):
        kind |= SECRET
    return kind & ~_NEVER.get(whole, 0)


@lru_cache(maxsize=4096)
def is_left_out(key: str, action: tuple[str, ...]) -> bool:
    """What stands in this field is spared, unless the name of the `action` says so: `skip_jobs` acts on `skip_ids`."""
    parts = words(key)
    return any(not row.isdisjoint(parts) and row.isdisjoint(action) for row in _LEAVES_OUT)


@lru_cache(maxsize=4096)
def is_acted_on(key: str, action: tuple[str, ...]) -> bool:
    """The action's name says this field's word: `archive_channel(channel=...)` tells nobody anything."""
    parts = words(key)
    return bool(parts) and not {parts[-1], singular(parts[-1])}.isdisjoint(action)


def is_perhaps_left_out(key: str) -> bool:
    """The same word may say what kind of things the action acts on."""
    return not _PERHAPS_LEFT_OUT.isdisjoint(words(key))


@lru_cache(maxsize=1024)
def unit_of(key: str) -> int:
    """How many bytes one of the field's units is."""
    parts = words(key)
    return _UNITS.get(parts[-1], 1) if parts else 1


@lru_cache(maxsize=1024)
def scale_of(key: str) -> tuple[Decimal, str]:
    """What an amount in this field is divided by, and the currency that the field's name tells."""
    parts = words(key)
    scale = Decimal(100) if parts and parts[-1] in {"cents", "cent"} else Decimal(1)
    return scale, next((part.upper() for part in parts if part.upper() in CODES), "")
