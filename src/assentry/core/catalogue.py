"""The catalogue of common actions: what each means for the world, and why.

Data only, meant to be read and argued with. An entry is recognised by meaning, any of its verbs with any of its
nouns in whatever order and casing, or by one of its short names. The four answers follow: can it be undone, how
far does it reach, does it leave our systems, does it cost money. `least` is for the few actions whose answers
alone sound too mild.

Where two entries fit, the one that names the head noun wins; within a noun, the later entry does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assentry.core.action import Effect, Reach, Risk
from assentry.core.names import Name, split_name

NOTHING, LOCAL, SERVICE, ORGANISATION = Reach.NOTHING, Reach.LOCAL, Reach.SERVICE, Reach.ORGANISATION


@dataclass(frozen=True, slots=True)
class Entry:
    """One common action."""

    area: str
    name: str
    verbs: frozenset[str]
    nouns: frozenset[str]
    effect: Effect
    because: str
    least: Risk = Risk.SAFE
    short: frozenset[str] = frozenset()
    """Whole names that mean this action (`rm`, `git push`), as words with blanks between."""
    text: str = ""
    """What decides each call, if the arguments hold a program of their own: `shell`, `sql`, `code` or `http`."""

    @property
    def risk(self) -> Risk:
        return max(self.effect.risk, self.least, key=lambda risk: risk.rank)


def _entry(
    area: str,
    name: str,
    verbs: str,
    nouns: str,
    *,
    because: str,
    undo: bool = True,
    reach: Reach = SERVICE,
    outside: bool = False,
    money: bool = False,
    least: Risk = Risk.SAFE,
    short: str = "",
    text: str = "",
) -> Entry:
    effect = Effect(reversible=undo, reach=reach, outside=outside, money=money)
    known = frozenset(part.strip() for part in short.split(",") if part.strip())
    return Entry(area, name, _set(verbs), _set(nouns), effect, because, least, known, text)


def _set(spaced: str) -> frozenset[str]:
    return frozenset(spaced.split())


_LOOK = "get list read search find fetch show view describe lookup retrieve inspect browse check count query"
_CREATE = "create add insert make register put"
_CHANGE = "update edit modify set change rename patch replace upsert amend alter"
_REMOVE = "delete remove drop destroy erase wipe purge unlink del trash clear"
_SEND = "send post reply forward compose submit respond"

_FILE = "file directory folder path document blob attachment dir"
_MAIL = "email mail inbox mailbox gmail newsletter"
_CHAT = "message dm chat channel slack sms text conversation thread whatsapp telegram"
_EVENT = "event calendar meeting appointment invitation"
_PERSON = "contact customer lead record deal opportunity ticket case order patient"
_TABLE = "table row database collection index schema column view keyspace dataset"
_MACHINE = "instance server vm cluster volume disk nodepool machine container pod droplet function queue"
_SECRETS = "password secret credential token apikey passphrase otp"
_MEMBER = "user member account collaborator employee seat"
_RIGHT = "permission role access policy acl privilege scope grant membership"

# fmt: off
_FILES = (
    _entry("files", "look at files",
           _LOOK + " download diff export", _FILE,
           reach=NOTHING, short="ls, cat, head, tail, grep, find, stat, du, wc, pwd, tree, glob, diff, cd",
           because="Reading leaves every file as it was."),
    _entry("files", "create files",
           "create make touch add", _FILE,
           reach=LOCAL, short="mkdir, touch",
           because="A new file can be deleted again and replaces nothing."),
    _entry("files", "write files",
           "write overwrite save replace put", _FILE,
           undo=False, reach=LOCAL,
           because="Writing replaces what stood in the file before, and nothing keeps the old content."),
    _entry("files", "edit files",
           "edit modify patch update append", _FILE,
           reach=LOCAL,
           because="An edit changes part of a file and can be turned back from the difference."),
    _entry("files", "move or copy files",
           "move rename copy duplicate", _FILE,
           reach=LOCAL, short="mv, cp",
           because="What was moved or copied can be moved back."),
    _entry("files", "delete files",
           _REMOVE + " shred rm", _FILE,
           undo=False, reach=LOCAL, short="rm, rmdir, unlink, shred",
           because="Deleted files are gone unless somebody kept a copy."),
    _entry("files", "upload files",
           "upload", _FILE,
           outside=True,
           because="An upload hands content to another system, where others may see it."),
    _entry("files", "share files",
           "share publish", _FILE,
           undo=False, outside=True,
           because="Once shared, the content may have been read or copied before the share is withdrawn."),
    _entry("files", "change file permissions",
           "chmod chown set change update", "mode chmod chown",
           reach=LOCAL, least=Risk.DANGEROUS, short="chmod, chown",
           because="Opening a file to others exposes what is in it."),
)

_SHELL = (
    _entry("shell", "run a command",
           "run execute exec start invoke spawn call", "command shell terminal bash process",
           undo=False, outside=True, short="bash, shell, sh, terminal, powershell, exec, execute, run, system",
           text="shell",
           because="A command can do anything its user may do; the command itself tells what."),
    _entry("shell", "run code",
           "run execute exec eval evaluate invoke", "code python script javascript cell notebook",
           undo=False, outside=True, short="python, eval, repl, code interpreter, python repl", text="code",
           because="Code can do anything its process may do, and cannot be judged by its name."),
    _entry("shell", "stop a process",
           "kill terminate stop", "process session daemon",
           undo=False, reach=LOCAL, short="kill",
           because="A killed process loses what it had not saved."),
    _entry("shell", "install software",
           "install upgrade add", "package dependency plugin extension library",
           reach=LOCAL, outside=True, least=Risk.DANGEROUS,
           because="Installing runs other people's code on this machine."),
    _entry("shell", "remove software",
           "uninstall remove delete", "package dependency plugin extension library app",
           undo=False, reach=LOCAL,
           because="Removing software takes its settings and data along."),
    _entry("shell", "run tests",
           "run execute start", "test suite check lint",
           reach=LOCAL,
           because="Tests run known code on this machine and leave little behind."),
)

_WEB = (
    _entry("web", "look at a web page",
           _LOOK + " open crawl scrape extract navigate visit", "page webpage website web url site html content",
           reach=NOTHING, outside=True, short="fetch, web search, web fetch, browse, fetch url, http get",
           because="Reading a page changes nothing, though the address itself reaches the outside."),
    _entry("web", "call a web address",
           "call request send post put make", "http request webhook endpoint api rest",
           undo=False, outside=True, short="http request, curl, wget, request, http post, http put", text="http",
           because="A request to another system can do whatever that system offers."),
    _entry("web", "act on a web page",
           "click fill submit type press select drag tap input",
           "form button element page webpage field option key screen link",
           outside=True,
           because="A click or a form may order, send or delete; the page decides."),
    _entry("web", "log in",
           "login authenticate signin", "account website session user",
           reach=LOCAL, outside=True, short="login, log in, sign in, authenticate",
           because="A session opens doors for everything that follows."),
)

_MAIL_ENTRIES = (
    _entry("mail", "look at mail",
           _LOOK + " download", _MAIL + " draft",
           reach=NOTHING,
           because="Reading mail sends nothing."),
    _entry("mail", "draft mail",
           "draft create compose save write update edit prepare", _MAIL + " draft",
           reach=LOCAL,
           because="A draft waits in the drafts folder until somebody sends it."),
    _entry("mail", "send mail",
           "send reply forward email mail resend", _MAIL + " draft campaign",
           undo=False, outside=True, short="email, mail, send",
           because="A mail that was sent cannot be called back."),
    _entry("mail", "file mail",
           "move archive mark label flag star snooze", _MAIL,
           because="Mail can be moved back."),
    _entry("mail", "delete mail",
           _REMOVE, _MAIL + " draft",
           undo=False,
           because="Deleted mail is gone for good sooner or later."),
    _entry("mail", "change mail rules",
           "create add set update change enable", "forwarding signature autoreply",
           outside=True, least=Risk.DANGEROUS,
           because="A rule keeps acting on mail nobody is looking at, forwarding included."),
)

_CHAT_ENTRIES = (
    _entry("chat", "look at messages",
           _LOOK, _CHAT + " post comment reaction tweet",
           reach=NOTHING,
           because="Reading a conversation says nothing in it."),
    _entry("chat", "send a message",
           _SEND + " message notify announce broadcast add", _CHAT + " notification alert announcement",
           undo=False, outside=True, short="message, notify, tweet, retweet, dm",
           because="People read a message the moment it arrives."),
    _entry("chat", "publish a post",
           "post publish tweet share", "tweet post article story status update blog video reel",
           undo=False, reach=ORGANISATION, outside=True,
           because="What is published speaks for the whole organisation and is copied at once."),
    _entry("chat", "react",
           "add remove create set delete", "reaction emoji like star",
           because="A reaction can be taken back and carries little."),
    _entry("chat", "comment",
           "add create post write reply comment", "comment note reply review discussion annotation",
           because="A comment stays inside the tool it is written in and can be edited or removed."),
    _entry("chat", "delete messages",
           _REMOVE, _CHAT + " comment note",
           undo=False,
           because="A deleted message is lost for everybody in the conversation."),
    _entry("chat", "call somebody",
           "call dial make", "call phone phonecall",
           undo=False, outside=True,
           because="A conversation with a person cannot be taken back."),
    _entry("chat", "join or leave",
           "join leave create invite", "channel group room",
           because="Channels can be left and joined again."),
)

_CALENDAR = (
    _entry("calendar", "look at calendars",
           _LOOK, _EVENT + " availability freebusy schedule agenda",
           reach=NOTHING,
           because="Reading a calendar books nothing."),
    _entry("calendar", "create events",
           "create add schedule book insert make", _EVENT,
           because="An event can be cancelled, though people it invites are told."),
    _entry("calendar", "change events",
           "update edit modify reschedule move change patch", _EVENT,
           because="An event can be moved back."),
    _entry("calendar", "delete events",
           _REMOVE + " cancel", _EVENT,
           undo=False,
           because="The event and the answers of its guests are lost."),
    _entry("calendar", "answer invitations",
           "accept decline respond confirm reject", _EVENT,
           because="An answer can be changed until the event."),
)

_RECORDS = (
    _entry("records", "look at records",
           _LOOK, _PERSON + " invoice product item entry issue note task project",
           reach=NOTHING,
           because="Reading a record leaves it as it was."),
    _entry("records", "create records",
           _CREATE, _PERSON + " product item entry issue note task project invoice",
           because="A new record can be removed again."),
    _entry("records", "change records",
           _CHANGE + " assign close reopen resolve mark move complete",
           _PERSON + " product item entry issue note task project invoice label milestone",
           because="Most systems of record keep the former value."),
    _entry("records", "delete records",
           _REMOVE, _PERSON + " product item entry issue note task project invoice label milestone",
           undo=False,
           because="A deleted record takes its history along."),
    _entry("records", "merge records",
           "merge dedupe deduplicate combine", "contact customer record lead account duplicate",
           undo=False,
           because="Two records that became one cannot be told apart again."),
    _entry("records", "cancel orders",
           "cancel return exchange", "order reservation booking subscription flight ticket trip",
           undo=False, outside=True, money=True,
           because="A cancelled order moves money and may not be available again."),
    _entry("records", "import records",
           "import load ingest", "record contact customer data row entry",
           least=Risk.DANGEROUS,
           because="An import touches many records at once and mixes with what is there."),
    _entry("records", "export personal data",
           "export download dump extract", "contact customer user employee patient database crm",
           reach=NOTHING, least=Risk.DANGEROUS,
           because="A whole list of people in one file is what leaks are made of."),
)

_DATABASES = (
    _entry("databases", "query a database",
           "query select search count read aggregate explain find get list describe",
           "query table row database collection schema view sample column index dataset",
           reach=NOTHING, short="query, aggregate, explain", text="sql",
           because="A query reads; the statement itself is looked at in case it does more."),
    _entry("databases", "run a query",
           "run execute exec perform", "query",
           reach=NOTHING, text="sql",
           because="Running a query reads, unless its text says otherwise, which is looked at call by call."),
    _entry("databases", "run SQL",
           "run execute exec query", "sql statement dml ddl mutation",
           undo=False, short="sql, execute sql, run sql", text="sql",
           because="SQL can change or drop anything; the statement tells which."),
    _entry("databases", "add rows",
           "insert add create append put", "row entity relation observation",
           because="Rows that were added can be removed again."),
    _entry("databases", "change rows",
           "update upsert modify edit set", "row column cell",
           because="Values can be set back where the old ones are known."),
    _entry("databases", "delete rows or tables",
           _REMOVE + " truncate", _TABLE + " entity relation observation",
           undo=False,
           because="Dropped tables and deleted rows come back only from a backup."),
    _entry("databases", "change the schema",
           "alter migrate create rename add apply run", "table column schema index migration keyspace",
           least=Risk.RISKY,
           because="Everything that reads the table meets the new shape at once."),
    _entry("databases", "restore a database",
           "restore rollback overwrite", "database backup snapshot table",
           undo=False, reach=ORGANISATION,
           because="A restore throws away everything written since the backup."),
    _entry("databases", "back up",
           "backup create dump", "backup snapshot",
           because="A backup adds a copy and touches nothing else."),
)

_CLOUD = (
    _entry("cloud", "look at resources",
           _LOOK, _MACHINE + " bucket resource region quota metric log alert subscription",
           reach=NOTHING,
           because="Looking at a resource leaves it running as it was."),
    _entry("cloud", "create resources",
           "create provision launch allocate add", _MACHINE + " resource environment",
           money=True,
           because="A resource can be removed again but costs from the first minute."),
    _entry("cloud", "change resources",
           "update scale resize modify configure set upgrade patch", _MACHINE + " resource",
           least=Risk.RISKY,
           because="Whatever runs on the resource feels the change."),
    _entry("cloud", "stop or restart resources",
           "stop restart reboot pause suspend shutdown", _MACHINE + " resource app webapp",
           reach=ORGANISATION,
           because="Everybody who uses the service waits until it is back."),
    _entry("cloud", "delete resources",
           _REMOVE + " terminate teardown deprovision decommission", _MACHINE + " resource environment bucket stack",
           undo=False, reach=ORGANISATION,
           because="The resource goes with its data, for everybody who used it."),
    _entry("cloud", "change network rules",
           "create add update delete remove open set allow",
           "firewall firewallrule dns domain route ip subnet vpn ingress",
           reach=ORGANISATION,
           because="A wrong rule locks everybody out, or lets everybody in."),
    _entry("cloud", "apply infrastructure",
           "apply destroy", "infrastructure terraform stack plan manifest",
           undo=False, reach=ORGANISATION,
           short="terraform apply, terraform destroy, kubectl apply, kubectl delete",
           because="One apply may replace any number of resources."),
)

_DEPLOYMENTS = (
    _entry("deployments", "look at builds",
           _LOOK + " download wait", "build pipeline deployment job run workflow release log artifact check",
           reach=NOTHING,
           because="Reading a build log builds nothing."),
    _entry("deployments", "start a build",
           "run trigger start retry rerun rebuild create dispatch play", "build pipeline job workflow ci",
           because="A build can be cancelled and started again."),
    _entry("deployments", "stop a build",
           "cancel stop abort", "build pipeline job workflow run",
           because="A build that was stopped can be started again."),
    _entry("deployments", "deploy",
           "deploy release ship promote publish rollout",
           "app application service build release version site production code action function",
           reach=ORGANISATION, short="deploy, release, ship",
           because="Everybody who uses the service gets the new version."),
    _entry("deployments", "roll back",
           "rollback revert", "deployment release version service app",
           reach=ORGANISATION, short="rollback",
           because="A rollback is itself a deployment that everybody gets."),
    _entry("deployments", "publish a package",
           "publish push upload release", "package npm pypi crate",
           undo=False, reach=ORGANISATION, outside=True,
           because="A published version is fetched by others at once and cannot be replaced."),
    _entry("deployments", "flip a feature flag",
           "enable disable toggle set update create", "flag feature toggle experiment",
           least=Risk.RISKY,
           because="A flag changes what people see, and can be flipped back."),
)

_VERSION_CONTROL = (
    _entry("version control", "look at a repository",
           _LOOK + " diff", "repository repo branch commit diff history blame tag pull request review",
           reach=NOTHING, short="git status, git log, git diff, git show, git blame, git reflog",
           because="History is read, not written."),
    _entry("version control", "commit",
           "commit stage stash add", "commit change git",
           reach=LOCAL,
           short="git commit, git add, git stash, git clone, git pull, git fetch, git checkout, git init",
           because="A commit adds to history and stays on this machine."),
    _entry("version control", "push",
           "push", "branch commit change file repository repo code",
           short="git push, push",
           because="Colleagues see the new commits; they can be reverted."),
    _entry("version control", "rewrite history",
           "rebase reset rewrite", "push history branch head git",
           undo=False, short="git reset, git rebase, git clean, force push, git push force",
           because="Commits that nothing points to are collected and lost."),
    _entry("version control", "create branches and requests",
           "create open add fork clone", "branch tag repository repo fork pull request pr",
           because="Branches and requests can be closed again."),
    _entry("version control", "change branches and requests",
           _CHANGE + " close reopen assign", "branch tag repository repo pull request pr",
           because="A request can be edited or reopened."),
    _entry("version control", "merge",
           "merge", "branch request pull pr",
           reach=ORGANISATION, short="git merge, merge pull request, merge merge request",
           because="Everybody who builds from the branch gets the change."),
    _entry("version control", "delete branches or repositories",
           _REMOVE, "branch tag repository repo release fork",
           undo=False,
           because="Commits that were only there are lost."),
    _entry("version control", "protect branches",
           "protect unprotect", "branch tag",
           reach=ORGANISATION,
           because="Protection is what keeps everybody else's mistakes out."),
    _entry("version control", "give a repository away",
           "transfer", "ownership repository repo project organization domain",
           undo=False, reach=ORGANISATION,
           because="The new owner decides whether it ever comes back."),
)

_PAYMENTS = (
    _entry("payments", "look at money",
           _LOOK + " estimate calculate",
           "balance transaction payment invoice price cost billing charge refund quote rate",
           reach=NOTHING,
           because="Looking at an account moves nothing."),
    _entry("payments", "pay",
           "pay send transfer make schedule create process remit submit execute withdraw charge",
           "money payment fund transaction transfer payout salary wire withdrawal deposit ether "
            "bitcoin crypto charge cash",
           undo=False, outside=True, money=True, short="pay, transfer, withdraw, charge",
           because="Money that has left comes back only if the other side agrees."),
    _entry("payments", "refund",
           "refund reimburse issue create process", "refund reimbursement credit chargeback",
           undo=False, outside=True, money=True, short="refund",
           because="A refund is a payment to somebody who already has the goods."),
    _entry("payments", "buy",
           "buy purchase order checkout book reserve rent",
           "order product item cart flight hotel ticket reservation insurance domain stock trade "
            "room car booking table restaurant",
           undo=False, outside=True, money=True, short="buy, purchase, checkout, place order, booking",
           because="A purchase binds us, and returning it is the seller's choice."),
    _entry("payments", "trade",
           "trade sell invest swap make execute", "stock share trade position coin investment",
           undo=False, outside=True, money=True,
           because="Markets do not take trades back."),
    _entry("payments", "send an invoice",
           "send issue finalize", "invoice bill quote",
           undo=False, outside=True,
           because="The customer has the bill and will act on it."),
    _entry("payments", "change a scheduled payment",
           "update change modify edit set", "payment transaction payout subscription billing budget plan price",
           outside=True, money=True,
           because="A changed payment goes out later without anyone looking again."),
    _entry("payments", "subscribe",
           "subscribe upgrade renew start", "subscription plan membership",
           outside=True, money=True,
           because="A subscription costs until somebody remembers to end it."),
)

_CREDENTIALS = (
    _entry("credentials", "list credentials",
           "list count check describe", _SECRETS + " key certificate vault",
           reach=NOTHING, least=Risk.RISKY,
           because="Names of secrets tell where to look, though not what they are."),
    _entry("credentials", "read credentials",
           "get read show view fetch retrieve search find reveal export download lookup dump extract", _SECRETS,
           reach=NOTHING, least=Risk.CRITICAL,
           because="Whoever has read a secret holds everything it opens, for as long as it is valid."),
    _entry("credentials", "share credentials",
           "share send publish post forward disclose", _SECRETS + " key",
           undo=False, reach=ORGANISATION, outside=True,
           because="A secret that was shared is no longer one."),
    _entry("credentials", "create credentials",
           "create generate add issue mint register upload import save store", _SECRETS + " key certificate",
           least=Risk.DANGEROUS,
           because="A new key is a new door that somebody must remember to close."),
    _entry("credentials", "change credentials",
           _CHANGE + " rotate reset", _SECRETS + " key certificate",
           undo=False, reach=ORGANISATION,
           because="Everything that used the old secret stops working, its owner included."),
    _entry("credentials", "delete credentials",
           _REMOVE + " revoke", _SECRETS + " key certificate",
           undo=False, reach=ORGANISATION,
           because="Everything that used the secret stops working at once."),
    _entry("credentials", "weaken sign-in",
           "disable remove turn bypass", "mfa authentication 2fa factor sso captcha encryption",
           reach=ORGANISATION, least=Risk.CRITICAL,
           because="The lock is off for everybody who tries the door."),
)

_USERS = (
    _entry("users and permissions", "look at people",
           _LOOK, "user member collaborator team group profile role permission access person people",
           reach=NOTHING,
           because="Knowing who is there changes nothing."),
    _entry("users and permissions", "create users",
           "create add register onboard provision", "user member employee seat",
           least=Risk.RISKY,
           because="An account can be removed, but opens our systems until then."),
    _entry("users and permissions", "invite",
           "invite", "user member collaborator guest participant attendee people person",
           outside=True,
           because="The invitation leaves for somebody who then has a way in."),
    _entry("users and permissions", "let people in",
           "add", "collaborator guest participant attendee",
           outside=True,
           because="Whoever is added is told, and sees what is inside."),
    _entry("users and permissions", "change users",
           _CHANGE + " suspend", "user member profile info",
           because="Most details of a user can be set back."),
    _entry("users and permissions", "remove users",
           _REMOVE + " deactivate offboard ban", _MEMBER,
           undo=False, reach=ORGANISATION,
           because="The person is locked out and may lose what only the account held."),
    _entry("users and permissions", "change permissions",
           "grant set update change add give assign modify create remove revoke manage promote elevate",
           _RIGHT + " admin owner ownership sharing visibility",
           reach=ORGANISATION,
           because="Permissions decide what everything else is allowed to do."),
)
# fmt: on

CATALOGUE: tuple[Entry, ...] = (
    *_FILES,
    *_SHELL,
    *_WEB,
    *_MAIL_ENTRIES,
    *_CHAT_ENTRIES,
    *_CALENDAR,
    *_RECORDS,
    *_DATABASES,
    *_CLOUD,
    *_DEPLOYMENTS,
    *_VERSION_CONTROL,
    *_PAYMENTS,
    *_CREDENTIALS,
    *_USERS,
)
"""Every entry, in the order of its areas."""


def _by_meaning(entries: tuple[Entry, ...]) -> Mapping[tuple[str, str], Entry]:
    return {(verb, noun): entry for entry in entries for verb in entry.verbs for noun in entry.nouns}


def _by_short_name(entries: tuple[Entry, ...]) -> Mapping[str, Entry]:
    return {short: entry for entry in entries for short in entry.short}


_MEANINGS = _by_meaning(CATALOGUE)
_SHORT_NAMES = _by_short_name(CATALOGUE)
KNOWN_NOUNS: frozenset[str] = frozenset(noun for entry in CATALOGUE for noun in entry.nouns)


def find_entry(name: Name | str) -> Entry | None:
    """The entry that `name` means, or nothing if the catalogue does not know such an action."""
    parts = split_name(name) if isinstance(name, str) else name
    known = _SHORT_NAMES.get(" ".join(parts.tokens)) or _by_last_words(parts)
    if known is not None:
        return known
    found = [entry for verb in parts.verbs if (entry := _of_head_noun(verb, parts.nouns)) is not None]
    return max(found, key=lambda entry: entry.risk.rank, default=None)


def _by_last_words(parts: Name) -> Entry | None:
    """The entry whose short name ends the name, provided that no other verb says what is done."""
    last = parts.tokens[-2:] if parts.verbs else parts.tokens[-1:]
    return _SHORT_NAMES.get(" ".join(last)) if set(parts.verbs) <= set(last) else None


def _of_head_noun(verb: str, nouns: tuple[str, ...]) -> Entry | None:
    for noun in reversed(nouns):
        entry = _MEANINGS.get((verb, noun))
        if entry is not None:
            return entry
        if noun in KNOWN_NOUNS:
            return None
    return None
