"""What headway and its workers say to each other besides JSON (R5.7)."""

from typing import Final

from headway.core.document import BYTE_COUNT_MAX

CALL_ID_HEADER: Final = "Headway-Call-Id"
"""Sent with a call and with its cancel. A worker that names it in its answer is believed for it."""
GENERATION_HEADER: Final = "Headway-Generation"
"""Of the claim that calls, or that cancels."""
DRAINING: Final = "draining"
"""The error of a worker that leaves: it has not begun with the call."""
CALL_BYTE_COUNT_MAX: Final = 4 * BYTE_COUNT_MAX
"""Of a call: its input, and the parameters of a node over those of its task."""
NDJSON_MEDIA_TYPE: Final = "application/x-ndjson"
"""An answer that tells of progress, line by line."""
PROGRESS_BYTE_COUNT_MAX: Final = 16 << 10
PROGRESS_LINE_BYTE_COUNT_MAX: Final = PROGRESS_BYTE_COUNT_MAX + 64
"""With what is around it."""
