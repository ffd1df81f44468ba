"""Bugs in the HTTP server and in the command that starts it."""

from typing import Final

from tests.mutants.mutant import Mutant

API: Final = (
    Mutant(
        name="the serve command accepts a public address without a token",
        file="cli/commands/serve.py",
        edits=(("    check_exposure(host, access)\n", ""),),
        test_file="tests/cli/test_exposure.py",
        test="test_host_reachable_from_other_machines_is_refused_without_a_token",
    ),
    Mutant(
        name="the server accepts a public address without a token",
        file="api/server.py",
        edits=(("    check_exposure(host, access)\n    own_names", "    own_names"),),
        test_file="tests/api/test_guard.py",
        test="test_server_reachable_from_other_hosts_does_not_start_without_a_token",
    ),
    Mutant(
        name="any token is accepted",
        file="api/http/access.py",
        edits=(
            (
                "            if hmac.compare_digest(token_digest, digest):\n",
                "            if True:\n",
            ),
        ),
        test_file="tests/api/test_walk.py",
        test="test_every_route_and_method_requires_its_scope",
    ),
    Mutant(
        name="a worker token grants the scope of a read token",
        file="api/http/request_guard.py",
        edits=(
            (
                "if caller.scope not in (Scope.OPERATE, required):",
                "if caller.scope is not Scope.OPERATE and required is Scope.OPERATE:",
            ),
        ),
        test_file="tests/api/test_walk.py",
        test="test_every_route_and_method_requires_its_scope",
    ),
    Mutant(
        name="every path that begins like a path of the page needs no token",
        file="api/http/origin.py",
        edits=(
            (
                "return path in PAGE_PATHS or path.startswith(PAGE_PREFIX)",
                'return path in PAGE_PATHS or path.startswith(("/ui", "/d"))',
            ),
        ),
        test_file="tests/api/test_walk.py",
        test="test_every_route_and_method_requires_its_scope",
    ),
    Mutant(
        name="a session does not expire",
        file="api/http/access.py",
        edits=((' or int(session.partition(".")[0]) <= time.time()', ""),),
        test_file="tests/api/test_sessions.py",
        test="test_session_expires",
    ),
    Mutant(
        name="a session is accepted after its sign-out",
        file="api/http/access.py",
        edits=(("        self._ended_sessions[session] = verified[1]\n", ""),),
        test_file="tests/api/test_sessions.py",
        test="test_session_ends_at_sign_out",
    ),
    Mutant(
        name="a page of another origin may call the server",
        file="api/http/origin.py",
        edits=(('        return origin == f"{scheme}://{host}"', "        return True"),),
        test_file="tests/api/test_guard.py",
        test="test_a_page_of_another_origin_is_refused",
    ),
    Mutant(
        name="the Sec-Fetch-Site header is ignored",
        file="api/http/origin.py",
        edits=(('not in (None, "same-origin", "none")', "is False"),),
        test_file="tests/api/test_guard.py",
        test="test_a_page_of_another_origin_is_refused",
    ),
    Mutant(
        name="a page of the public host without TLS may call the server",
        file="api/http/origin.py",
        edits=(
            (
                "            if host == self.public_address.host:\n",
                "            if not host:\n",
            ),
        ),
        test_file="tests/api/test_proxy.py",
        test="test_other_origins_are_refused_behind_a_proxy",
    ),
    Mutant(
        name="the cookie of a server behind TLS is not marked as secure",
        file="api/routes/session.py",
        edits=(("secure=is_secure or request", "secure=request"),),
        test_file="tests/api/test_proxy.py",
        test="test_page_of_the_public_address_is_accepted",
    ),
    Mutant(
        name="any host name is accepted",
        file="api/http/request_guard.py",
        edits=(("        self._origins.check_host(headers)\n", ""),),
        test_file="tests/api/test_guard.py",
        test="test_a_wrong_host_is_refused",
    ),
    Mutant(
        name="a host name is accepted if only its beginning is valid",
        file="api/http/origin.py",
        edits=(("_HOST.fullmatch(host)", "_HOST.match(host)"),),
        test_file="tests/api/test_guard.py",
        test="test_a_wrong_host_is_refused",
    ),
    Mutant(
        name="temporary errors have no Retry-After header",
        file="api/http/problem.py",
        edits=(("is_temporary = status in (429, 503)", "is_temporary = False"),),
        test_file="tests/api/test_overload.py",
        test="test_full_lane_is_429",
    ),
    Mutant(
        name="idle connections are not aborted",
        file="api/server.py",
        edits=(
            (
                "        self._connections.abort_silent(now_s=asyncio.get_running_loop().time())\n",
                "",
            ),
        ),
        test_file="tests/api/test_connections.py",
        test="test_connection_without_a_complete_request_is_closed",
    ),
    Mutant(
        name="each byte of a request extends its time limit",
        file="api/http/connection.py",
        edits=(
            (
                '        self._unparsed = b""\n        for first',
                (
                    '        self._unparsed = b""\n'
                    "        self._tracker.mark_idle(self, now_s=self.loop.time())\n"
                    "        for first"
                ),
            ),
        ),
        test_file="tests/api/test_connections.py",
        test="test_connection_that_sends_byte_by_byte_is_closed",
    ),
    Mutant(
        name="a trailer becomes a header after the guard has checked the headers",
        file="api/http/connection.py",
        edits=(("        if self._is_in_body:\n", "        if not self.headers:\n"),),
        test_file="tests/api/test_pipelining.py",
        test="test_trailers_do_not_become_headers",
    ),
    Mutant(
        name="only the newest pipelined request is notified of a lost connection",
        file="api/http/connection.py",
        edits=(("            self._disconnect(self._begun_cycle)\n", "            pass\n"),),
        test_file="tests/api/test_pipelining.py",
        test="test_disconnect_ends_a_stream_that_has_a_pipelined_request_behind_it",
    ),
    Mutant(
        name="authenticated connections are aborted to make room",
        file="api/http/connection.py",
        edits=(("            if not oldest.is_authenticated:\n", "            if oldest:\n"),),
        test_file="tests/api/test_connections.py",
        test="test_oldest_unauthenticated_connection_is_closed_when_there_are_too_many",
    ),
    Mutant(
        name="a server that cannot write is ready",
        file="api/routes/health.py",
        edits=(("            await self._store.apply(Probe())\n", ""),),
        test_file="tests/api/test_ready.py",
        test="test_database_that_refuses_writes_makes_the_server_unready",
    ),
)
