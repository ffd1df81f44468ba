"""`/api/session`: a browser gives its token once, and keeps a cookie that scripts cannot read."""

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
    """`is_secure`: browsers come by TLS, whatever arrives here."""
    router = APIRouter(prefix="/api/session", tags=["session"], route_class=StrictRoute)
    door = _TokenChecker(access)

    @router.post("", status_code=204, responses=problem_responses(429))
    async def sign_in(request: Request, body: SessionBody) -> Response:
        """Turn a token into a session."""
        holder = await door.check_token(body.token)
        answer = Response(status_code=204)
        answer.set_cookie(
            access.cookie_name,
            access.create_session(holder),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=is_secure or request.url.scheme == "https",
        )
        return answer

    @router.delete("", status_code=204, responses=problem_responses())
    async def sign_out(request: Request) -> Response:
        """End the session."""
        access.end_session(request.cookies.get(access.cookie_name, ""))
        answer = Response(status_code=204)
        answer.delete_cookie(access.cookie_name, httponly=True, samesite="strict")
        return answer

    return router


class _TokenChecker:
    """Where tokens are tried. A right one is let in at once, whatever others do.

    A wrong one is told so after a while, and only few are told anything but that they are many.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._wrong_count = 0

    async def check_token(self, token: str) -> str:
        if self._access.is_open:
            raise unauthorized("no token is set here: everybody may call, and nobody signs in")
        holder = self._access.find_holder(token)
        if holder is not None:
            return holder
        if self._wrong_count >= GUESS_COUNT_MAX:
            raise too_many_requests(
                "too_many_guesses", "too many wrong tokens were tried; try again soon"
            )
        self._wrong_count += 1
        try:
            await asyncio.sleep(GUESS_DELAY_S)
        finally:
            self._wrong_count -= 1
        raise unauthorized("there is no such token")
