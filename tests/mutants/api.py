"""Bugs in the server, and in the command that starts it."""

from typing import Final

from tests.mutants.mutant import Mutant

API: Final = (
    Mutant(
        name="the command serves everybody without a token",
        file="cli/commands/serve.py",
        edits=(("    check_exposure(listens_on, access)\n", ""),),
        test_file="tests/cli/test_exposure.py",
        test="test_an_address_that_others_reach_is_refused_without_a_token",
    ),
    Mutant(
        name="the server listens to everybody without a token",
        file="api/server.py",
        edits=(("    check_exposure(host, access)\n    own_names", "    own_names"),),
        test_file="tests/api/test_guard.py",
        test="test_a_server_that_others_reach_does_not_start_without_a_token",
    ),
    Mutant(
        name="any token is taken",
        file="api/http/access.py",
        edits=(("            if hmac.compare_digest(known, digest):\n", "            if True:\n"),),
        test_file="tests/api/test_walk.py",
        test="test_every_route_and_method_wants_its_scope",
    ),
    Mutant(
        name="a worker may do what a reader may",
        file="api/http/request_guard.py",
        edits=(
            (
                "is_enough = has is Scope.OPERATE or has is needs",
                "is_enough = has is Scope.OPERATE or needs is not Scope.OPERATE",
            ),
        ),
        test_file="tests/api/test_walk.py",
        test="test_every_route_and_method_wants_its_scope",
    ),
    Mutant(
        name="whatever is below the page's first letters is open",
        file="api/http/origin.py",
        edits=(
            (
                "return path in PAGE_PATHS or path.startswith(PAGE_PREFIX)",
                'return path in PAGE_PATHS or path.startswith(("/ui", "/d"))',
            ),
        ),
        test_file="tests/api/test_walk.py",
        test="test_every_route_and_method_wants_its_scope",
    ),
    Mutant(
        name="a session is good for ever",
        file="api/http/access.py",
        edits=((' or int(session.partition(".")[0]) <= time.time()', ""),),
        test_file="tests/api/test_sessions.py",
        test="test_a_session_is_over_after_its_time",
    ),
    Mutant(
        name="a session outlives its end",
        file="api/http/access.py",
        edits=(("        self._ended[session] = found[1]\n", ""),),
        test_file="tests/api/test_sessions.py",
        test="test_who_signs_out_has_no_session_any_more",
    ),
    Mutant(
        name="a page of another origin may call",
        file="api/http/origin.py",
        edits=(('        return origin == f"{scheme}://{host}"', "        return True"),),
        test_file="tests/api/test_guard.py",
        test="test_a_page_of_another_origin_is_refused",
    ),
    Mutant(
        name="what a browser says of the site that asks is not looked at",
        file="api/http/origin.py",
        edits=(('not in (None, "same-origin", "none")', "is False"),),
        test_file="tests/api/test_guard.py",
        test="test_a_page_of_another_origin_is_refused",
    ),
    Mutant(
        name="a page without TLS may call the one with it",
        file="api/http/origin.py",
        edits=(
            (
                "            if host == self.public.host:  # Else",
                "            if not host:  # Else",
            ),
        ),
        test_file="tests/api/test_proxy.py",
        test="test_no_other_origin_may",
    ),
    Mutant(
        name="the cookie of a server behind TLS is sent without it",
        file="api/routes/session.py",
        edits=(("secure=is_secure or request", "secure=request"),),
        test_file="tests/api/test_proxy.py",
        test="test_a_page_of_the_public_address_may_call",
    ),
    Mutant(
        name="any host is ours",
        file="api/http/request_guard.py",
        edits=(("        self._origins.check_host(headers)\n", ""),),
        test_file="tests/api/test_guard.py",
        test="test_a_wrong_host_is_refused",
    ),
    Mutant(
        name="a host is what begins like one",
        file="api/http/origin.py",
        edits=(("_HOST.fullmatch(host)", "_HOST.match(host)"),),
        test_file="tests/api/test_guard.py",
        test="test_a_wrong_host_is_refused",
    ),
    Mutant(
        name="nobody is told when to come again",
        file="api/http/problem.py",
        edits=(("is_passing = status in (429, 503)", "is_passing = False"),),
        test_file="tests/api/test_overload.py",
        test="test_a_full_lane_is_told",
    ),
    Mutant(
        name="a request that does not come is waited for",
        file="api/server.py",
        edits=(
            (
                "        self._connections.look(now_s=asyncio.get_running_loop().time())\n",
                "",
            ),
        ),
        test_file="tests/api/test_connections.py",
        test="test_a_request_that_does_not_come_is_not_waited_for",
    ),
    Mutant(
        name="each letter of a request buys more time",
        file="api/http/connection.py",
        edits=(
            (
                "        if self.cycle is not before:\n",
                (
                    "        self._all.end(self, now_s=self.loop.time())\n"
                    "        if self.cycle is not before:\n"
                ),
            ),
        ),
        test_file="tests/api/test_connections.py",
        test="test_nor_one_that_comes_a_letter_at_a_time",
    ),
    Mutant(
        name="who is known gives way to strangers",
        file="api/http/connection.py",
        edits=(("            if not oldest.is_known:\n", "            if oldest:\n"),),
        test_file="tests/api/test_connections.py",
        test="test_who_has_not_said_who_it_is_gives_way",
    ),
    Mutant(
        name="a server is ready that cannot write",
        file="api/routes/health.py",
        edits=(("            await self._store.apply(Probe())\n", ""),),
        test_file="tests/api/test_ready.py",
        test="test_a_database_that_takes_no_writes_makes_a_server_unready",
    ),
)
