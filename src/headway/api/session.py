"""`/api/session`: a browser gives its token once, and keeps a cookie that scripts cannot read."""

from fastapi import APIRouter, Request, Response

from headway.api.access import SESSION_COOKIE, SESSION_S, Access
from headway.api.answers import StrictRoute, problems
from headway.api.problem import Problem
from headway.api.wire import SessionBody


def session_router(access: Access) -> APIRouter:
    router = APIRouter(prefix="/api/session", tags=["session"], route_class=StrictRoute)

    @router.post("", status_code=204, responses=problems(body=True))
    async def sign_in(request: Request, body: SessionBody) -> Response:
        """Turn a token into a session."""
        scope = access.scope_of_secret(body.token)
        if access.is_open or scope is None:
            raise Problem(401, "unauthorized", "there is no such token")
        answer = Response(status_code=204)
        answer.set_cookie(
            SESSION_COOKIE,
            access.session(scope),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    @router.delete("", status_code=204, responses=problems())
    async def sign_out() -> Response:
        """Forget the session."""
        answer = Response(status_code=204)
        answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
        return answer

    return router
