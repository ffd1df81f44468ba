"""Call commands in this process, as the command line does, against a server or a database."""

import json
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.api.client import Client


class CommandRunner:
    """Awaits commands and returns what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str], client: Client) -> None:
        self._capsys = capsys
        self.client = client

    async def lines(self, command: Awaitable[object]) -> list[str]:
        await command
        return self._capsys.readouterr().out.splitlines()

    async def json(self, command: Awaitable[object]) -> list[Any]:
        return [json.loads(line) for line in await self.lines(command)]
