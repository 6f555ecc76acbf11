"""Keys and checkpoints that are kept outside the database: signing, sealing of secrets, and rotation.

Everything lies under one directory, `$ASSENTRY_HOME`, that only its owner may read:

    keys/current          the id of the key that signs now
    keys/<id>.key, .pub   Ed25519 key pairs; of retired and foreign keys, the public half suffices
    keys/sealing          the id of the key that seals secrets now
    keys/<id>.secret      sealing keys; old ones stay, so that what they sealed can be opened
    keys/fingerprint      the secret behind fingerprints; it never changes, since they are compared
    checkpoints/<store identity>.jsonl    every checkpoint that was signed here
"""

import base64
import hmac
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from assentry.core.audit import Entry
from assentry.core.export import ROTATED
from assentry.core.signing import PublicKeys, handover, key_id, public_key, raw
from assentry.errors import KeyProblem
from assentry.ports import Signed
from assentry.system import create_private, locked, others_can_read, others_can_write, sync_directory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_SECRET_BYTES = 32
_NONCE_BYTES = 12
_SEALED = "v1"
_LOCK_SECONDS = 30.0
"""Longer than another process takes to write a line, on any disk that still answers."""
_FIELDS = ("workspace", "size", "text", "key_id", "signature")


def home() -> Path:
    """Where keys are kept unless somebody says otherwise."""
    if chosen := os.environ.get("ASSENTRY_HOME"):
        return Path(chosen)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "assentry"
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(data) if Path(data).is_absolute() else Path.home() / ".local" / "share") / "assentry"


class KeyRing:
    """The `Signer` and `Vault` of one `$ASSENTRY_HOME`. Keys are made when first needed.

    Which key is current is read anew each time, so a rotation by another process holds at once. May be
    used from any thread and by several processes.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or home()
        self._signing: dict[str, Ed25519PrivateKey] = {}
        self._sealing: dict[str, bytes] = {}

    @property
    def _keys(self) -> Path:
        return self.directory / "keys"

    def login(self, url: str) -> dict[str, str] | None:
        """The session that was begun with this server, where one was."""
        try:
            kept = json.loads((self.directory / "logins.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        found = kept.get(url.rstrip("/")) if isinstance(kept, dict) else None
        return {"url": url.rstrip("/"), "session": str(found)} if found else None

    def keep_login(self, url: str, session: str) -> None:
        """The session is kept for later commands, readable by nobody else; an empty one is forgotten."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self.directory / "logins.json"
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        kept = {name: value for name, value in kept.items() if name != url.rstrip("/")}
        fresh = file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps({**kept, **({url.rstrip("/"): session} if session else {})}), encoding="utf-8")
        fresh.replace(file)

    @property
    def key_id(self) -> str:
        """The id of the key that signs now."""
        return self._current("current", self._new_signing_key)

    def sign(self, data: bytes) -> bytes:
        return self._private(self.key_id).sign(data)

    def signed(self, data: bytes) -> tuple[str, str]:
        """The id of the current key and its signature in hex, both of the same key during a rotation."""
        name = self.key_id
        return name, self._private(name).sign(data).hex()

    def public_keys(self) -> PublicKeys:
        """Every public key in the directory: the current one, retired ones, and those that were trusted."""
        with _readable(self._keys):
            found = sorted(self._keys.glob("*.pub")) if self._keys.exists() else []
            return PublicKeys.of(*(path.read_text(encoding="ascii", errors="replace") for path in found))

    def public_key(self, name: str = "") -> str:
        """The public key with this id (the current one unless named), as PEM."""
        path = self._keys / f"{_safe(name) or self.key_id}.pub"
        with _readable(path):
            return path.read_text(encoding="ascii")

    def trust(self, text: str) -> str:
        """The public key in `text` (PEM or hex) verifies signatures from now on; its id."""
        key = public_key(text)
        name = key_id(key)
        with _readable(self._keys):
            self._put(f"{name}.pub", _pem(key), replace=True)
        return name

    def introduce(self, workspace: str, at: datetime, by: str) -> Entry:
        """A new key pair exists, and the current key vouches for it in this `key.rotated` entry.

        Record the entry, then `promote` its subject. Until then the old key goes on signing.
        """
        old = self.key_id
        with _readable(self._keys):
            new = self._new_signing_key()
        public = raw(self._private(new).public_key())
        signature = self._private(old).sign(handover(old, public)).hex()
        body = {"old": old, "new": new, "public": public, "signature": signature}
        return Entry(ROTATED, at, workspace, new, by, body)

    def promote(self, name: str) -> None:
        """The key with this id signs from now on; the others keep verifying what they signed."""
        self._private(name)
        with _readable(self._keys):
            self._put("current", name.encode(), replace=True)

    def rotate_sealing(self) -> str:
        """Secrets are sealed with a new key from now on, and the old ones can still be opened; its id."""
        with _readable(self._keys):
            name = self._new_sealing_key()
            self._put("sealing", name.encode(), replace=True)
        return name

    def seal(self, context: str, text: str) -> str:
        """`text`, encrypted and bound to `context`."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        name = self._current("sealing", self._new_sealing_key)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        box = ChaCha20Poly1305(self._secret(name)).encrypt(nonce, text.encode(), _bound(name, context))
        return f"{_SEALED}.{name}.{base64.urlsafe_b64encode(nonce + box).decode()}"

    def unseal(self, context: str, sealed: str) -> str:
        """The text that was sealed for exactly this `context`."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        version, _, rest = sealed.partition(".")
        name, _, box = rest.partition(".")
        if version != _SEALED:
            raise KeyProblem("this sealed value was written by another version of Assentry; update Assentry")
        key = self._secret(name)
        try:
            data = base64.b64decode(box, altchars=b"-_", validate=True)
            if base64.urlsafe_b64encode(data).decode() != box:
                raise ValueError("spelled differently")
            nonce, box_bytes = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            return ChaCha20Poly1305(key).decrypt(nonce, box_bytes, _bound(name, context)).decode()
        except (InvalidTag, ValueError):
            raise KeyProblem(
                "a sealed value does not open: it was changed, or it was sealed for something else; propose again"
            ) from None

    def fingerprint(self, text: str) -> str:
        """A keyed hash: equal secrets give equal fingerprints, and nobody without the key can guess."""
        name = "fingerprint"
        if name not in self._sealing:
            with _readable(self._keys):
                if not (self._keys / name).exists():
                    self._put(name, secrets.token_bytes(_SECRET_BYTES).hex().encode(), replace=False)
            self._sealing[name] = _derived(self._read_secret(name), b"assentry fingerprint v1")
        return hmac.new(self._sealing[name], text.encode(), sha256).hexdigest()

    def _current(self, pointer: str, make: Callable[[], str]) -> str:
        """The id that `pointer` names, after making a key if there is none yet."""
        path = self._keys / pointer
        with _readable(path):
            if not path.exists():
                made = make()
                if not self._put(pointer, made.encode(), replace=False):
                    # Another process was first; nobody has seen ours.
                    self._forget(made)
            return _safe(path.read_text(encoding="ascii").strip())

    def _new_signing_key(self) -> str:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = Ed25519PrivateKey.generate()
        name = key_id(key.public_key())
        self._put(f"{name}.pub", _pem(key.public_key()))
        self._put(f"{name}.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return name

    def _new_sealing_key(self) -> str:
        secret = secrets.token_bytes(_SECRET_BYTES)
        name = _derived(secret, b"assentry sealing id v1").hex()[:16]
        self._put(f"{name}.secret", secret.hex().encode())
        return name

    def _forget(self, name: str) -> None:
        for suffix in ("key", "pub", "secret"):
            (self._keys / f"{name}.{suffix}").unlink(missing_ok=True)

    def _private(self, name: str) -> "Ed25519PrivateKey":
        if name not in self._signing:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key

            path = self._keys / f"{_safe(name)}.key"
            with _readable(path):
                _refuse_shared(path)
                pem = path.read_bytes()
            try:
                key = load_pem_private_key(pem, password=None)
            except (ValueError, TypeError):
                raise KeyProblem(
                    f"{path} is damaged; restore it from a backup, or remove keys/current to start anew"
                ) from None
            if not isinstance(key, Ed25519PrivateKey) or key_id(key.public_key()) != name:
                raise KeyProblem(f"{path} holds another key than its name says; restore it from a backup")
            self._signing[name] = key
        return self._signing[name]

    def _secret(self, name: str) -> bytes:
        if name not in self._sealing:
            secret = self._read_secret(f"{_safe(name)}.secret")
            self._sealing[name] = _derived(secret, b"assentry sealing v1")
        return self._sealing[name]

    def _read_secret(self, file: str) -> bytes:
        path = self._keys / file
        with _readable(path):
            _refuse_shared(path)
            text = path.read_text(encoding="ascii", errors="replace")
        try:
            secret = bytes.fromhex(text)
        except ValueError:
            secret = b""
        if len(secret) != _SECRET_BYTES:
            raise KeyProblem(f"{path} is damaged; restore it from a backup")
        return secret

    def _put(self, name: str, data: bytes, *, replace: bool = False) -> bool:
        """Whether `name` now holds `data`, whole and durably; without `replace`, the first to come wins."""
        _directory(self._keys)
        return _put(self._keys / name, data, replace=replace)

    def keep(self, identity: str, signed: Signed) -> None:
        """The checkpoint is on disk outside the database, where cutting the database does not reach it."""
        path = self._kept(identity)
        with _readable(path):
            _directory(path.parent)
            with locked(path.with_suffix(".lock"), _LOCK_SECONDS):
                create_private(path)
                with path.open("r+b") as file:
                    # A line without its end was never acknowledged: a crash cut it off.
                    whole = _whole_lines(file)
                    file.truncate(whole)
                    file.seek(whole)
                    line = json.dumps({name: getattr(signed, name) for name in _FIELDS}, ensure_ascii=False) + "\n"
                    file.write(line.encode())
                    file.flush()
                    os.fsync(file.fileno())
                if not whole:
                    sync_directory(path.parent)

    def kept(self, identity: str, workspace: str) -> tuple[tuple[Signed, ...], tuple[str, ...]]:
        """The checkpoints that `keep` wrote for this log, oldest first, and what is wrong with the file."""
        path = self._kept(identity)
        if not path.exists():
            return (), ()
        with _readable(path):
            data = path.read_bytes()
        found, wrong = [], []
        for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n")[:-1], 1):
            try:
                fields = json.loads(line)
                signed = Signed(**fields)
            except (ValueError, TypeError, RecursionError):
                wrong.append(f"line {number} of {path} is not a checkpoint: somebody changed that file")
                continue
            if signed.workspace == workspace:
                found.append(signed)
        return tuple(found), tuple(wrong)

    def _kept(self, identity: str) -> Path:
        return self.directory / "checkpoints" / f"{_safe(identity)}.jsonl"


def _safe(name: str) -> str:
    """`name`, which can only be a file's name."""
    if not all(char.isalnum() or char in "-_" for char in name):
        raise KeyProblem("an id of a key or a database consists of letters, digits, - and _; this one does not")
    return name


def _bound(name: str, context: str) -> bytes:
    return f"{_SEALED}.{name}.{context}".encode()


def _pem(key: "Ed25519PublicKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=_SECRET_BYTES, salt=None, info=purpose).derive(secret)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What the file system refuses inside becomes one line that says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise KeyProblem(f"{path} is missing; restore it from a backup, or set ASSENTRY_HOME to where it is") from None
    except PermissionError:
        raise KeyProblem(f"{path} may not be used by this user; run as its owner, or set ASSENTRY_HOME") from None
    except OSError as error:
        raise KeyProblem(
            f"{path} cannot be used ({error.strerror}); set ASSENTRY_HOME to a directory of yours"
        ) from None


def _refuse_shared(path: Path) -> None:
    if others_can_read(path):
        raise KeyProblem(f"other users can read the private key {path}; run: chmod 600 '{path}'")


def _directory(path: Path) -> None:
    """`path` exists, and only its owner can change what is in it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    if others_can_write(path):
        raise KeyProblem(f"other users can change {path}; run: chmod 700 '{path}'")


def _put(path: Path, data: bytes, *, replace: bool) -> bool:
    """Whether `path` now holds `data`: never half of it, and not lost by a power cut."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            Path(temporary).replace(path)
        else:
            # Linking fails if the name is taken, and shows others the file whole: no other step does both.
            os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
    sync_directory(path.parent)
    return True


def _whole_lines(file: BinaryIO) -> int:
    """How much of the file consists of whole lines."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
