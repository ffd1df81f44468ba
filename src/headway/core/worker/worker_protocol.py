"""The headers, limits and media types between headway and its workers (R5.7)."""

from typing import Final

from headway.core.document import BYTE_COUNT_MAX

CALL_ID_HEADER: Final = "Headway-Call-Id"
"""The header with a call's id. It is sent with the call and with a request to cancel it.

A response that repeats the id certainly belongs to the call.
"""
GENERATION_HEADER: Final = "Headway-Generation"
"""The header with the generation of the claim that sends or cancels the call."""
DRAINING: Final = "draining"
"""The error code of a worker that is shutting down: it has not started the call."""
CALL_BYTE_COUNT_MAX: Final = 4 * BYTE_COUNT_MAX
"""The size limit of a call: its input, and the parameters of the node and of its task."""
NDJSON_MEDIA_TYPE: Final = "application/x-ndjson"
"""The media type of a response that streams progress, one JSON object per line."""
PROGRESS_BYTE_COUNT_MAX: Final = 16 << 10
PROGRESS_LINE_BYTE_COUNT_MAX: Final = PROGRESS_BYTE_COUNT_MAX + 64
"""The size limit of a line of progress: the progress and the JSON object around it."""
