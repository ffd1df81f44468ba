"""`headway db …`"""

import json as jsonlib

from headway.bootstrap import check_database, upgrade_database
from headway.settings import load_settings


async def upgrade(*, json: bool = False) -> None:
    """Bring the schema to this program's version; safe to run again, and from several places.

    Parameters
    ----------
    json
        Print one JSON object instead of a sentence.
    """
    version = await upgrade_database(load_settings().urls)
    _say(version, "the schema is at", as_json=json)


async def check(*, json: bool = False) -> None:
    """Say whether this program can use the schema; changes nothing.

    Parameters
    ----------
    json
        Print one JSON object instead of a sentence.
    """
    version = await check_database(load_settings().urls)
    _say(version, "the schema is current:", as_json=json)


def _say(version: str, sentence: str, *, as_json: bool) -> None:
    print(jsonlib.dumps({"schema": version}) if as_json else f"{sentence} {version}")
