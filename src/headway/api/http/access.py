"""Who may do what: tokens with scopes, and the session that a browser keeps instead of one."""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from headway.core.errors import ConfigurationError

COOKIE_PREFIX: Final = "headway_session_"
SESSION_S: Final = 12 * 3600
ENDED_SESSION_COUNT_MAX: Final = 10_000
TOKEN_LENGTH_MIN: Final = 16


class Scope(IntEnum):
    """What a token is good for; `operate` includes `read`."""

    WORKER = 0
    """Only what workers call."""
    READ = 1
    OPERATE = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Token:
    secret: str
    scope: Scope
    name: str = ""
    """Whose it is, if several are told apart."""

    @property
    def holder(self) -> str:
        """`operate`, or `operate:ann`: who has it, as far as anybody may know."""
        return f"{self.scope.label}:{self.name}" if self.name else self.scope.label


class Caller(NamedTuple):
    """Who asks, as far as it is known, and never the token itself."""

    scope: Scope
    actor: str = ""
    """`token:operate`, `session:operate:ann`; nothing where everybody may do everything."""
    session: str | None = None
    """The one that let it in, if it was one."""

    @classmethod
    def from_holder(cls, kind: str, holder: str, session: str | None = None) -> "Caller":
        return cls(Scope[holder.partition(":")[0].upper()], f"{kind}:{holder}", session)


class Access:
    """Without any token everybody may do everything: only for a server on loopback (S1)."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if len(token.secret) < TOKEN_LENGTH_MIN:
                raise ConfigurationError(
                    f"a token of scope {token.scope.label} is shorter than {TOKEN_LENGTH_MIN}"
                    " characters; make one with: openssl rand -hex 32"
                )
        self._holders = {_digest(token.secret): token.holder for token in tokens}
        if len(self._holders) < len(tokens):
            raise ConfigurationError("two tokens are the same; each needs a secret of its own")
        # Known to every instance that has the same tokens, so that any of them takes the session.
        # Whose scope or name was changed has to sign in again.
        known = sorted(digest + holder.encode() for digest, holder in self._holders.items())
        self._session_key = hashlib.sha256(b"session" + b"".join(known)).digest()
        # A browser keeps one cookie of a name for all ports of a host: servers with other tokens
        # have a name of their own.
        self.cookie_name = COOKIE_PREFIX + self._sign("name")[:8]
        self._ended_sessions: dict[str, int] = {}
        """Sessions that were ended before their time, each with when that is."""

    @property
    def is_open(self) -> bool:
        return not self._holders

    def authenticate(self, headers: Mapping[str, str], session: str) -> Caller | None:
        """Who asks; None when it has not said who it is, or not rightly.

        `session` is what its cookie says, or nothing.
        """
        if self.is_open:
            return Caller(Scope.OPERATE)
        secret = _parse_secret(headers.get("authorization", ""))
        if secret is not None:
            holder = self.find_holder(secret)
            return None if holder is None else Caller.from_holder("token", holder)
        found = self._verify_session(session)
        return None if found is None else Caller.from_holder("session", found[0], session)

    def find_holder(self, secret: str) -> str | None:
        """Of the token with this secret, if there is one."""
        digest, found = _digest(secret), None
        for known, holder in self._holders.items():  # All of them: the time tells nothing.
            if hmac.compare_digest(known, digest):
                found = holder
        return found

    def create_session(self, holder: str) -> str:
        """What a browser keeps instead of the token."""
        said = f"{int(time.time()) + SESSION_S}.{holder}.{secrets.token_hex(8)}"
        return f"{said}.{self._sign(said)}"

    def end_session(self, session: str) -> None:
        """Take it no more. Another server, and this one once it is started anew, still would."""
        found = self._verify_session(session)
        if found is None:
            return
        now = time.time()
        self._ended_sessions = {
            one: until for one, until in self._ended_sessions.items() if until > now
        }
        if len(self._ended_sessions) >= ENDED_SESSION_COUNT_MAX:
            del self._ended_sessions[next(iter(self._ended_sessions))]
        self._ended_sessions[session] = found[1]

    def is_session_over(self, session: str) -> bool:
        """Whether it was ended, or its time is over; of one that was taken before."""
        return session in self._ended_sessions or int(session.partition(".")[0]) <= time.time()

    def _verify_session(self, session: str) -> tuple[str, int] | None:
        """Whose it is, and until when; None: it is not ours, or is over."""
        said, _, signature = session.rpartition(".")
        if not hmac.compare_digest(self._sign(said).encode(), signature.encode()):
            return None
        until, holder, _ = said.split(".")
        return None if self.is_session_over(session) else (holder, int(until))

    def _sign(self, said: str) -> str:
        return hmac.digest(self._session_key, said.encode("utf-8", "replace"), "sha256").hex()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _parse_secret(authorization: str) -> str | None:
    """Bearer, or the password of Basic, which every HTTP client can send; None: there is none."""
    kind, _, rest = authorization.partition(" ")
    match kind.lower():
        case "bearer":
            return rest.strip()
        case "basic":
            try:
                decoded = base64.b64decode(rest.strip(), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return ""
            return decoded.partition(":")[2]
        case _:
            return "" if kind else None
