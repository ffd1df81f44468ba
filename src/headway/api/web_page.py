"""`/ui/`: the web page, built into the package. It loads nothing from other servers (S8)."""

from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.responses import RedirectResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from headway.api.http.problem import Problem

PAGE_PATH: Final = "/ui"
BUILT_FOLDER: Final = Path(__file__).parents[1] / "_ui"
COMPRESSED_BYTE_COUNT_MIN: Final = 1_000
YEAR_S: Final = 31_536_000
CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_page(app: FastAPI, folder: Path = BUILT_FOLDER) -> None:
    """Serve the page in `folder`, and redirect `/` and `/ui` to it."""
    app.include_router(_redirect_router())
    if (folder / "index.html").is_file():
        files = _PageFiles(directory=folder, html=True)
        app.mount(PAGE_PATH, GZipMiddleware(files, minimum_size=COMPRESSED_BYTE_COUNT_MIN))
    else:
        app.include_router(_missing_page_router())


def _redirect_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    @router.get(PAGE_PATH)
    async def redirect_to_page() -> Response:
        # Relative, so that it works behind a proxy that serves headway under a prefix.
        return RedirectResponse(f"{PAGE_PATH[1:]}/")

    return router


def _missing_page_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(f"{PAGE_PATH}/")
    async def report_missing_page() -> Response:
        detail = "the page is not built in this checkout; build it with: make page"
        raise Problem(404, "page_not_built", detail)

    return router


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        is_hashed = "assets" in Path(args[0]).parts
        caching = f"public, max-age={YEAR_S}, immutable" if is_hashed else "no-cache"
        response.headers["cache-control"] = caching
        response.headers["content-security-policy"] = CONTENT_POLICY
        return response
