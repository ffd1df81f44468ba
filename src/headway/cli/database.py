"""`headway db …`"""

import json as jsonlib
from collections.abc import Sequence

from headway.bootstrap import check_database, display, upgrade_database
from headway.settings import load_settings


async def upgrade(*, json: bool = False) -> None:
    """Bring the schema to this program's version; safe to run again, and from several places.

    Parameters
    ----------
    json
        Print one JSON object instead of a sentence.
    """
    urls = load_settings().urls
    _say(await upgrade_database(urls), "the schema is at", urls, as_json=json)


async def check(*, json: bool = False) -> None:
    """Say whether this program can use the schema; changes nothing.

    Parameters
    ----------
    json
        Print one JSON object instead of a sentence.
    """
    urls = load_settings().urls
    _say(await check_database(urls), "the schema is current:", urls, as_json=json)


def _say(version: str, sentence: str, urls: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(jsonlib.dumps({"schema": version, "database": display(urls)}))
    else:
        print(f"{sentence} {version}\ndatabase: {display(urls)}")
