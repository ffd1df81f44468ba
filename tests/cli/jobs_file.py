"""A jobs file of a user, for commands that submit without a server."""

from headway.app import Headway
from tests.api.jobs import register, register_schedule

hw = Headway()
register(hw)
register_schedule(hw)
