"""A file of a user's, for what is submitted without a server."""

from headway.app import Headway
from tests.api.jobs import register

hw = Headway()
register(hw)
