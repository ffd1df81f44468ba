"""`/api/session`: exchange a token for a session cookie that scripts cannot read."""

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response

from headway.api.http.access import SESSION_S, Access
from headway.api.http.problem import too_many_requests, unauthorized
from headway.api.http.responses import problem_responses
from headway.api.http.strict import StrictRoute
from headway.api.wire.api_models import SessionBody

GUESS_COUNT_MAX: Final = 10
GUESS_DELAY_S: Final = 1.0


def session_router(access: Access, *, is_secure: bool) -> APIRouter:
    """Return the routes to sign in and to sign out.

    `is_secure` is True if browsers use TLS, even if a proxy forwards plain HTTP.
    """
    router = APIRouter(prefix="/api/session", tags=["session"], route_class=StrictRoute)
    checker = _TokenChecker(access)

    @router.post("", status_code=204, responses=problem_responses(429))
    async def sign_in(request: Request, body: SessionBody) -> Response:
        """Sign in: exchange a token for a session cookie."""
        holder = await checker.check_token(body.token)
        response = Response(status_code=204)
        response.set_cookie(
            access.cookie_name,
            access.create_session(holder),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=is_secure or request.url.scheme == "https",
        )
        return response

    @router.delete("", status_code=204, responses=problem_responses())
    async def sign_out(request: Request) -> Response:
        """Sign out: end the session."""
        access.end_session(request.cookies.get(access.cookie_name, ""))
        response = Response(status_code=204)
        response.delete_cookie(access.cookie_name, httponly=True, samesite="strict")
        return response

    return router


class _TokenChecker:
    """Checks the tokens of sign-ins, and slows down guessing.

    A valid token is accepted at once. A wrong token is refused after `GUESS_DELAY_S`. While
    `GUESS_COUNT_MAX` requests wait for that refusal, further wrong tokens get 429.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._wrong_count = 0

    async def check_token(self, token: str) -> str:
        if self._access.is_open:
            raise unauthorized("this server has no tokens, so signing in is not needed")
        holder = self._access.find_holder(token)
        if holder is not None:
            return holder
        if self._wrong_count >= GUESS_COUNT_MAX:
            raise too_many_requests(
                "too_many_guesses", "too many wrong tokens; try again in a few seconds"
            )
        self._wrong_count += 1
        try:
            await asyncio.sleep(GUESS_DELAY_S)
        finally:
            self._wrong_count -= 1
        raise unauthorized("invalid token")
