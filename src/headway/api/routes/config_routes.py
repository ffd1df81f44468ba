"""`/api/config/reload`: read the configuration again while the server runs."""

from dataclasses import asdict

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from headway.api.headway_api import HeadwayApi
from headway.api.http.problem import Problem
from headway.api.http.responses import json_response, problem_responses
from headway.api.http.strict import StrictRoute
from headway.core.errors import ConfigurationError


class ConfiguredLaneView(BaseModel):
    name: str
    previous_limit: int = Field(description="The limit of the lane before the reload.")
    max_concurrent: int = Field(description="The limit of the lane now.")


class ReloadView(BaseModel):
    """The changes that a reload has made."""

    lanes: list[ConfiguredLaneView] = Field(
        description="Lanes whose configured limit has changed. Limits that a person set stay."
    )
    restart_to_apply: list[str] = Field(
        description="Changed settings that need a restart to apply.", examples=[["port"]]
    )


def config_router(api: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api/config", tags=["lanes"], route_class=StrictRoute)

    @router.post(
        "/reload",
        response_class=Response,
        responses={200: {"model": ReloadView}, **problem_responses()},
    )
    async def reload_config() -> Response:
        """Read the server's configuration again, and apply the limits of lanes, as SIGHUP does.

        422 means that the configuration is invalid and that nothing was changed.
        """
        try:
            reloaded = await api.reload()
        except ConfigurationError as error:
            detail = f"{error}; nothing was changed"
            raise Problem(422, "configuration_refused", detail) from None
        lanes = [ConfiguredLaneView(**asdict(lane)) for lane in reloaded.lanes]
        view = ReloadView(lanes=lanes, restart_to_apply=list(reloaded.restart_to_apply))
        return json_response(view.model_dump_json())

    return router
