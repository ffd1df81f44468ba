"""Authentication: tokens with scopes, and signed session cookies for browsers."""

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
    """The permissions of a token. `operate` includes `read` and `worker`."""

    WORKER = 0
    """Permits only the calls that workers make: register and heartbeat."""
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
    """The name of the token's owner. Empty if owners are not distinguished."""

    @property
    def holder(self) -> str:
        """The public identity of the token: `operate`, or `operate:ann` if it has a name."""
        return f"{self.scope.label}:{self.name}" if self.name else self.scope.label


class Caller(NamedTuple):
    """The authenticated sender of a request. It never contains the token itself."""

    scope: Scope
    actor: str = ""
    """The identity that is stored with changes: `token:operate` or `session:operate:ann`.

    Empty on a server without tokens.
    """
    session: str | None = None
    """The session that authenticated the request, or None if a token authenticated it."""

    @classmethod
    def from_holder(cls, kind: str, holder: str, session: str | None = None) -> "Caller":
        return cls(Scope[holder.partition(":")[0].upper()], f"{kind}:{holder}", session)


class Access:
    """Authenticates requests by their token or their session.

    A server without tokens permits everything to every caller, so it must listen on loopback (S1).
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if len(token.secret) < TOKEN_LENGTH_MIN:
                raise ConfigurationError(
                    f"a token of scope {token.scope.label} is shorter than {TOKEN_LENGTH_MIN}"
                    " characters; make a longer one with: openssl rand -hex 32"
                )
        self._holders = {_digest(token.secret): token.holder for token in tokens}
        if len(self._holders) < len(tokens):
            raise ConfigurationError("two tokens are the same; give each token its own secret")
        # Derived from the tokens, so that every instance with the same tokens accepts the session.
        # A changed scope or name changes the key, so browsers must sign in again.
        entries = sorted(digest + holder.encode() for digest, holder in self._holders.items())
        self._session_key = hashlib.sha256(b"session" + b"".join(entries)).digest()
        # Browsers share cookies among all ports of a host. The cookie's name depends on the tokens,
        # so that servers with different tokens do not overwrite each other's cookie.
        self.cookie_name = COOKIE_PREFIX + self._sign("name")[:8]
        self._ended_sessions: dict[str, int] = {}
        """Sessions that were signed out before they expired, with their expiry in Unix seconds."""

    @property
    def is_open(self) -> bool:
        return not self._holders

    def authenticate(self, headers: Mapping[str, str], session: str) -> Caller | None:
        """Return the caller of a request, or None if the credentials are missing or wrong.

        `session` is the value of the session cookie, or empty.
        """
        if self.is_open:
            return Caller(Scope.OPERATE)
        secret = _parse_secret(headers.get("authorization", ""))
        if secret is not None:
            holder = self.find_holder(secret)
            return None if holder is None else Caller.from_holder("token", holder)
        verified = self._verify_session(session)
        return None if verified is None else Caller.from_holder("session", verified[0], session)

    def find_holder(self, secret: str) -> str | None:
        """Return the holder of the token with this secret, such as `operate:ann`.

        Return None if no token has this secret.
        """
        digest, match = _digest(secret), None
        # Compare with every token, so that the time taken does not reveal which one matched.
        for token_digest, holder in self._holders.items():
            if hmac.compare_digest(token_digest, digest):
                match = holder
        return match

    def create_session(self, holder: str) -> str:
        """Return a new signed session for a holder. Browsers store it instead of the token."""
        claims = f"{int(time.time()) + SESSION_S}.{holder}.{secrets.token_hex(8)}"
        return f"{claims}.{self._sign(claims)}"

    def end_session(self, session: str) -> None:
        """Refuse the session from now on, in this process only.

        Ended sessions are stored in memory. Other servers still accept the session until it
        expires, and so does this server after a restart.
        """
        verified = self._verify_session(session)
        if verified is None:
            return
        now = time.time()
        self._ended_sessions = {
            ended: expires_s for ended, expires_s in self._ended_sessions.items() if expires_s > now
        }
        if len(self._ended_sessions) >= ENDED_SESSION_COUNT_MAX:
            del self._ended_sessions[next(iter(self._ended_sessions))]
        self._ended_sessions[session] = verified[1]

    def is_session_over(self, session: str) -> bool:
        """Return True if a session has ended or expired.

        The caller must have verified the session's signature.
        """
        return session in self._ended_sessions or int(session.partition(".")[0]) <= time.time()

    def _verify_session(self, session: str) -> tuple[str, int] | None:
        """Return the holder of a session, and its expiry in Unix seconds.

        Return None if the session is not valid.
        """
        claims, _, signature = session.rpartition(".")
        if not hmac.compare_digest(self._sign(claims).encode(), signature.encode()):
            return None
        expires_s, holder, _ = claims.split(".")
        return None if self.is_session_over(session) else (holder, int(expires_s))

    def _sign(self, text: str) -> str:
        return hmac.digest(self._session_key, text.encode("utf-8", "replace"), "sha256").hex()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _parse_secret(authorization: str) -> str | None:
    """Return the Bearer token or the Basic password, or None if the header is empty.

    Basic is accepted because every HTTP client can send it. An unreadable header yields "", which
    matches no token.
    """
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
