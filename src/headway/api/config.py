"""`/api/config/reload`: read the configuration again while the server works."""

from dataclasses import asdict

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from headway.api.answers import json_answer, problems
from headway.api.face import Face
from headway.api.problem import Problem
from headway.api.strict import StrictRoute
from headway.core.errors import ConfigurationError


class ConfiguredLaneView(BaseModel):
    name: str
    previous_limit: int = Field(description="How many runs at once until now.")
    max_concurrent: int = Field(description="How many runs at once from now on.")


class ReloadView(BaseModel):
    """What the new reading has changed."""

    lanes: list[ConfiguredLaneView] = Field(
        description="Lanes whose configured limit is new. What a person has set in others stays."
    )
    restart_to_apply: list[str] = Field(
        description="Settings that are new and count only after a restart.", examples=[["port"]]
    )


def config_router(face: Face) -> APIRouter:
    router = APIRouter(prefix="/api/config", tags=["lanes"], route_class=StrictRoute)

    @router.post(
        "/reload", response_class=Response, responses={200: {"model": ReloadView}, **problems()}
    )
    async def reload_config() -> Response:
        """Read the server's configuration again, and apply the limits of lanes, as SIGHUP does.

        422: the configuration cannot be used; nothing was changed.
        """
        try:
            reloaded = await face.reload()
        except ConfigurationError as error:
            detail = f"{error}; nothing was changed"
            raise Problem(422, "configuration_refused", detail) from None
        lanes = [ConfiguredLaneView(**asdict(lane)) for lane in reloaded.lanes]
        view = ReloadView(lanes=lanes, restart_to_apply=list(reloaded.restart_to_apply))
        return json_answer(view.model_dump_json())

    return router
