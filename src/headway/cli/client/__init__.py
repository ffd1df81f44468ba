"""The client of the HTTP API, which calls a server or an application in this process."""
