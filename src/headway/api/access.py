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
from typing import Final

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


class Access:
    """Without any token everybody may do everything: only for a server on loopback (S1)."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if len(token.secret) < TOKEN_LENGTH_MIN:
                raise ConfigurationError(
                    f"a token of scope {token.scope.word} is shorter than {TOKEN_LENGTH_MIN}"
                    " characters; make one with: openssl rand -hex 32"
                )
        self._scopes = {_digest(token.secret): token.scope for token in tokens}
        if len(self._scopes) < len(tokens):
            raise ConfigurationError("two tokens are the same; each needs a secret of its own")
        # Known to every instance that has the same tokens, so that any of them takes the session.
        self._session_key = hashlib.sha256(b"session" + b"".join(sorted(self._scopes))).digest()
        # A browser keeps one cookie of a name for all ports of a host: servers with other tokens
        # have a name of their own.
        self.cookie_name = COOKIE_PREFIX + self._sign("name")[:8]
        self._ended: dict[str, int] = {}
        """Sessions that were ended before their time, each with when that is."""

    @property
    def is_open(self) -> bool:
        return not self._scopes

    def scope_of(self, headers: Mapping[str, str], session: str) -> Scope | None:
        """What the caller may do; None when it has not said who it is, or not rightly.

        `session` is what its cookie says, or nothing.
        """
        if self.is_open:
            return Scope.OPERATE
        secret = _secret_in(headers.get("authorization", ""))
        if secret is not None:
            return self.scope_of_secret(secret)
        found = self._read(session)
        return None if found is None else found[0]

    def scope_of_secret(self, secret: str) -> Scope | None:
        digest, found = _digest(secret), None
        for known, scope in self._scopes.items():  # All of them: the time tells nothing.
            if hmac.compare_digest(known, digest):
                found = scope
        return found

    def session(self, scope: Scope) -> str:
        """What a browser keeps instead of the token."""
        said = f"{int(time.time()) + SESSION_S}.{scope.word}.{secrets.token_hex(8)}"
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

    def _read(self, session: str) -> tuple[Scope, int] | None:
        """Its scope, and until when; None: it is not ours, or is over."""
        said, _, signature = session.rpartition(".")
        if not hmac.compare_digest(self._sign(said).encode(), signature.encode()):
            return None
        until, word, _ = said.split(".")
        return None if self.is_over(session) else (Scope[word.upper()], int(until))

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
