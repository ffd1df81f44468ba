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
ENDED_COUNT_MAX: Final = 10_000
TOKEN_LENGTH_MIN: Final = 16


class Scope(IntEnum):
    """What a token is good for; `operate` includes `read`."""

    WORKER = 0
    """Only what workers call."""
    READ = 1
    OPERATE = 2

    @property
    def word(self) -> str:
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
        return f"{self.scope.word}:{self.name}" if self.name else self.scope.word


class Caller(NamedTuple):
    """Who asks, as far as it is known, and never the token itself."""

    scope: Scope
    by: str = ""
    """`token:operate`, `session:operate:ann`; nothing where everybody may do everything."""
    session: str | None = None
    """The one that let it in, if it was one."""

    @classmethod
    def of(cls, kind: str, holder: str, session: str | None = None) -> "Caller":
        return cls(Scope[holder.partition(":")[0].upper()], f"{kind}:{holder}", session)


class Access:
    """Without any token everybody may do everything: only for a server on loopback (S1)."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if len(token.secret) < TOKEN_LENGTH_MIN:
                raise ConfigurationError(
                    f"a token of scope {token.scope.word} is shorter than {TOKEN_LENGTH_MIN}"
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
        self._ended: dict[str, int] = {}
        """Sessions that were ended before their time, each with when that is."""

    @property
    def is_open(self) -> bool:
        return not self._holders

    def caller_of(self, headers: Mapping[str, str], session: str) -> Caller | None:
        """Who asks; None when it has not said who it is, or not rightly.

        `session` is what its cookie says, or nothing.
        """
        if self.is_open:
            return Caller(Scope.OPERATE)
        secret = _secret_in(headers.get("authorization", ""))
        if secret is not None:
            holder = self.holder_of(secret)
            return None if holder is None else Caller.of("token", holder)
        found = self._read(session)
        return None if found is None else Caller.of("session", found[0], session)

    def holder_of(self, secret: str) -> str | None:
        """Of the token with this secret, if there is one."""
        digest, found = _digest(secret), None
        for known, holder in self._holders.items():  # All of them: the time tells nothing.
            if hmac.compare_digest(known, digest):
                found = holder
        return found

    def session(self, holder: str) -> str:
        """What a browser keeps instead of the token."""
        said = f"{int(time.time()) + SESSION_S}.{holder}.{secrets.token_hex(8)}"
        return f"{said}.{self._sign(said)}"

    def end_session(self, session: str) -> None:
        """Take it no more. Another server, and this one once it is started anew, still would."""
        found = self._read(session)
        if found is None:
            return
        now = time.time()
        self._ended = {one: until for one, until in self._ended.items() if until > now}
        if len(self._ended) >= ENDED_COUNT_MAX:
            del self._ended[next(iter(self._ended))]
        self._ended[session] = found[1]

    def is_over(self, session: str) -> bool:
        """Whether it was ended, or its time is over; of one that was taken before."""
        return session in self._ended or int(session.partition(".")[0]) <= time.time()

    def _read(self, session: str) -> tuple[str, int] | None:
        """Whose it is, and until when; None: it is not ours, or is over."""
        said, _, signature = session.rpartition(".")
        if not hmac.compare_digest(self._sign(said).encode(), signature.encode()):
            return None
        until, holder, _ = said.split(".")
        return None if self.is_over(session) else (holder, int(until))

    def _sign(self, said: str) -> str:
        return hmac.digest(self._session_key, said.encode("utf-8", "replace"), "sha256").hex()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _secret_in(authorization: str) -> str | None:
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
