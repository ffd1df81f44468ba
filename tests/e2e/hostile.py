"""Names and texts that an attacker could have chosen."""

from typing import Final

MARKUP: Final = [
    "<script>window.owned = 1</script>",
    "<img src=x onerror=window.owned=1>",
    "<svg/onload=window.owned=1>",
    '"><script>window.owned=1</script>',
    "javascript:window.owned=1",
    "</textarea><script>window.owned=1</script>",
    "<iframe srcdoc='<script>parent.owned=1</script>'>",
    "<a href=javascript:window.owned=1>click</a>",
    "{{constructor.constructor('window.owned=1')()}}",
    "${window.owned=1}",
    "<style>*{display:none}</style>",
    "<base href=http://192.0.2.1/>",
    "<meta http-equiv=refresh content='0;url=http://192.0.2.1/'>",
    "<link rel=stylesheet href=http://192.0.2.1/x.css>",
    "&lt;script&gt;",
    "__proto__",
    "constructor",
    "toString",
]
WRITING: Final = [
    "\u202eevil\u202c",
    "\u2066hidden\u2069",
    "שלום עולם",
    "مرحبا بالعالم",
    "a\u0301\u0302\u0303\u0304" * 20,
    "👩‍👩‍👧‍👦" * 10,
    "\uff46\uff55\uff4c\uff4c",
    "tab\there",
    "line\u2028break\u2029here",
    "../../etc/passwd",
    "%2e%2e%2f",
    "a/b?c#d&e=f",
    "null",
    "undefined",
    "0",
    "-1",
    "1e999",
    "'; DROP TABLE runs; --",
    "W" * 255,
    "very " * 50,
]


def hostile_names() -> list[str]:
    """Return 200 hostile names, each valid as a key."""
    seeds = [text[:240].strip() for text in MARKUP + WRITING]
    names = [f"{seed} {number}"[:255].strip() for number in range(6) for seed in seeds]
    return list(dict.fromkeys([*seeds, *names]))[:200]
