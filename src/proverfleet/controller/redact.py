"""Takes secrets out of free text before it is stored: log tails, status texts, errors (rules.md, INV-12).

Known secrets go by their exact text; unknown ones by their shape. A word too many gone from a log costs little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MARK = "[redacted]"
SEEN_MAX = 1_000  # short texts whose outcome is remembered; a market's states and labels are the same each minute
SHORT = 200
_KEYED = re.compile(
    r"(?i)((?:[\w.-]*(?:token|secret|passw(?:or)?d|passwd|api[_-]?key|apikey|private[_-]?key|access[_-]?key|credential|"
    r"auth(?:orization)?|cookie|signature|_key)[\w.-]*)[\"']?\s*[:=]\s*[\"']?(?:bearer\s+|basic\s+)?)[^\s\"',;&]+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_IN_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s:@]+(?::[^/\s@]*)?@")
_LONG = re.compile(r"(?<![\w/-])(?=[A-Za-z0-9_+=-]*\d)(?=[A-Za-z0-9_+=-]*[A-Za-z])[A-Za-z0-9_+=-]{32,}(?![\w-])")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.S)


class Redactor:
    """``redact(text)`` without secrets, at most ``limit`` characters, the end of the text where it is longer."""

    __slots__ = ("_known", "_seen")

    def __init__(self, secrets: Sequence[str]) -> None:
        self._seen: dict[tuple[str, int], str] = {}
        longest_first = sorted({s for s in secrets if len(s) >= 4}, key=lambda s: (-len(s), s))
        self._known = re.compile("|".join(re.escape(s) for s in longest_first)) if longest_first else None

    def __call__(self, text: str, limit: int) -> str:
        if not text:
            return text
        if len(text) > SHORT:
            return self._redacted(text, limit)
        found = self._seen.get((text, limit))
        if found is None:
            if len(self._seen) >= SEEN_MAX:
                self._seen.clear()
            found = self._seen[text, limit] = self._redacted(text, limit)
        return found

    def _redacted(self, text: str, limit: int) -> str:
        if self._known is not None:
            text = self._known.sub(MARK, text)
        text = _PEM.sub(MARK, text)
        text = _KEYED.sub(lambda m: m[1] + MARK, text)
        text = _BEARER.sub(lambda m: f"{m[1]} {MARK}", text)
        text = _IN_URL.sub(lambda m: m[1] + MARK + "@", text)
        text = _LONG.sub(MARK, text)
        return text if len(text) <= limit else text[-limit:]
