"""Who may do what: tokens with scopes, and the session that a browser keeps instead of one."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headway.core.errors import ConfigurationError

SESSION_COOKIE: Final = "headway_session"
SESSION_S: Final = 12 * 3600
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

    @property
    def is_open(self) -> bool:
        return not self._scopes

    def scope_of(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Scope | None:
        """What the caller may do; None when it has not said who it is, or not rightly."""
        if self.is_open:
            return Scope.OPERATE
        secret = _secret_in(headers.get("authorization", ""))
        if secret is not None:
            return self.scope_of_secret(secret)
        return self._scope_of_session(cookies.get(SESSION_COOKIE, ""))

    def scope_of_secret(self, secret: str) -> Scope | None:
        digest, found = _digest(secret), None
        for known, scope in self._scopes.items():  # All of them: the time tells nothing.
            if hmac.compare_digest(known, digest):
                found = scope
        return found

    def session(self, scope: Scope) -> str:
        """What a browser keeps instead of the token."""
        said = f"{int(time.time()) + SESSION_S}.{scope.word}"
        return f"{said}.{self._sign(said)}"

    def _scope_of_session(self, session: str) -> Scope | None:
        said, _, signature = session.rpartition(".")
        if not hmac.compare_digest(self._sign(said).encode(), signature.encode()):
            return None
        until, _, word = said.partition(".")
        return Scope[word.upper()] if int(until) > time.time() else None

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
