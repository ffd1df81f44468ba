"""`/ui/`: the page, as it was built into the package. It needs nothing from anywhere else (S8)."""

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
    """Serve the page of `folder`, and lead `/` and `/ui` there."""
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
    async def lead_to_the_page() -> Response:
        # Relative, so that it holds behind a proxy that serves headway under a prefix.
        return RedirectResponse(f"{PAGE_PATH[1:]}/")

    return router


def _missing_page_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(f"{PAGE_PATH}/")
    async def say_that_it_is_not_built() -> Response:
        detail = "the page is not built in this checkout: make page; an installed headway has it"
        raise Problem(404, "page_not_built", detail)

    return router


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        is_hashed = "assets" in Path(args[0]).parts
        kept = f"public, max-age={YEAR_S}, immutable" if is_hashed else "no-cache"
        response.headers["cache-control"] = kept
        response.headers["content-security-policy"] = CONTENT_POLICY
        return response
