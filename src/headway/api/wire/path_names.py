"""Path parameters that are names.

A name may contain slashes, so the path converters exclude the suffixes of other calls.
"""

from typing import Annotated, Final

from fastapi import Path
from starlette.convertors import PathConvertor, register_url_convertor

from headway.api.wire.api_models import Name


def _name_convertor_before(*calls: str) -> PathConvertor:
    """Return a converter for names that do not end with one of the calls, such as `/clear`."""
    return _name_convertor(rf"(?s:(?!.*/(?:{'|'.join(calls)})\Z).*)")


def _name_convertor(regex: str) -> PathConvertor:
    kind: type[PathConvertor] = type("Names", (PathConvertor,), {"regex": regex})
    return kind()


# `(?s:…)`: names may contain line breaks.
register_url_convertor("name", _name_convertor("(?s:.*)"))
register_url_convertor("lane", _name_convertor_before("clear"))
register_url_convertor("schedule", _name_convertor_before("run"))
register_url_convertor("flow", _name_convertor_before("versions", "graph", "tasks"))

NamePath = Annotated[Name, Path()]
LANE_PATH: Final = "/lanes/{name:lane}"
SCHEDULE_PATH: Final = "/{name:schedule}"
FLOW_PATH: Final = "/flows/{name:flow}"
FLOW_PREFIX: Final = "/flows/{name:name}"
