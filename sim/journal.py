"""The file of a run: two streams of JSON lines in the order in which they were written.

A line of ``src`` "controller" is the store's exact bytes behind ``{"src":"controller","t":<world ns>,``; a line of
``src`` "world" is what the world alone knows. The first line is the header. The SHA-256 runs over everything but the
header's ``versions``, so the same run of the same scenario has one hash wherever it is made.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

FORMAT = 1


class JournalError(ValueError):
    """A file that is no journal of a run, or one that is broken before its end. Names file and line."""


class RunJournal:
    """Writes a run's journal, to ``path`` if there is one, and hashes it. ``on_line``: sees each controller line.

    ``canaries``: secrets that must never show in a controller's line; ``seen`` counts how often each did."""

    __slots__ = (
        "_buffer", "_file", "_hash", "_prefix", "_prefix_key", "bytes", "canaries", "lines", "on_line", "path", "seen",
    )

    def __init__(self, path: Path | None, header: dict[str, Any] | None = None) -> None:
        self.path = path
        self.lines = 0
        self.bytes = 0
        self.on_line: Callable[[bytes], None] | None = None
        self.canaries: tuple[bytes, ...] = ()
        self.seen: dict[bytes, int] = {}
        self._buffer: list[bytes] = []
        self._hash = hashlib.sha256()
        self._file: IO[bytes] | None = None
        self._prefix_key: tuple[int, str] = (-1, "")
        self._prefix = b""
        if path is not None:
            if _is_something_else(path):
                raise JournalError(f"{path} exists and is no journal; it is not overwritten: name another file")
            try:
                self._file = path.open("wb", buffering=0)
            except OSError as exc:
                raise JournalError(f"cannot write the journal {path}: {exc.strerror}") from exc
        if header is not None:
            self._write_header(header)

    def _write_header(self, header: dict[str, Any]) -> None:
        full = {"src": "header", "format": FORMAT, **header}
        hashed = {k: v for k, v in full.items() if k != "versions"}
        self._hash.update(orjson.dumps(hashed, option=orjson.OPT_SORT_KEYS) + b"\n")
        self._store(orjson.dumps(full, option=orjson.OPT_SORT_KEYS) + b"\n")

    def _store(self, data: bytes) -> None:
        """Writes all of ``data`` to the file, if there is one. JournalError where the disk is full."""
        left = memoryview(data)
        try:
            while self._file is not None and left:
                left = left[self._file.write(left):]
        except OSError as exc:
            file, self._file = self._file, None
            if file is not None:
                file.close()
            raise JournalError(f"cannot write the journal {self.path}: {exc.strerror}") from exc

    def controller(self, now_ns: int, by: str, line: bytes) -> None:
        """One event of a controller's store: ``line`` is its JSON object, byte for byte. ``by``: process name."""
        if self._prefix_key != (now_ns, by):
            who = b"" if by == "controller" else b'"by":' + orjson.dumps(by) + b","
            self._prefix_key = (now_ns, by)
            self._prefix = b'\n{"src":"controller","t":%d,' % now_ns + who
        buffer = self._buffer
        buffer.append(self._prefix)
        buffer.append(line[1:])
        self.lines += 1
        if self.on_line is not None:
            self.on_line(line)

    def world(self, now_ns: int, kind: str, fields: dict[str, Any]) -> None:
        """One line of the world's own."""
        self._buffer.append(b"\n" + orjson.dumps({"src": "world", "t": now_ns, "kind": kind, **fields}))
        self.lines += 1

    def flush(self) -> None:
        """Hands what was written so far to the hash and the file."""
        if not self._buffer:
            return
        data = b"".join(self._buffer)[1:] + b"\n"
        self._buffer.clear()
        self.bytes += len(data)
        for canary in self.canaries:
            if canary in data:
                self.seen[canary] = self.seen.get(canary, 0) + data.count(canary)
        self._hash.update(data)
        self._store(data)

    def sha256(self) -> str:
        """The hash over everything written so far, hex."""
        self.flush()
        return self._hash.copy().hexdigest()

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(frozen=True, slots=True)
class RunFile:
    """A journal as read back: ``header``, then ``lines`` (parsed objects, in order). ``cut``: the last line was only
    begun when the run was cut off; it is left out."""

    path: Path
    header: dict[str, Any]
    lines: tuple[dict[str, Any], ...]
    cut: bool

    def controller_lines(self) -> Iterator[dict[str, Any]]:
        """The controller's events as its store had them (``src``, ``t`` and ``by`` taken off again)."""
        for line in self.lines:
            if line["src"] == "controller":
                yield {k: v for k, v in line.items() if k not in ("src", "t", "by")}


def _is_something_else(path: Path) -> bool:
    """Does a regular file of this name hold anything but a journal?"""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return False
        with path.open("rb") as file:
            return not file.read(4096).lstrip().startswith(b'{') or b'"src":"header"' not in path.read_bytes()[:1 << 20]
    except OSError:
        return False


def read_run(path: Path) -> RunFile:
    """Reads a journal up to its last whole line. Raises JournalError naming the line that is broken."""
    try:
        if path.is_char_device() and path.resolve() != Path(os.devnull):  # /dev/zero never ends
            raise JournalError(f"{path}: is a device, no journal")
        data = path.read_bytes()
    except OSError as exc:
        raise JournalError(f"cannot read the journal {path}: {exc.strerror}") from exc
    pieces = data.split(b"\n")
    cut = bool(pieces.pop())
    if not pieces:
        raise JournalError(f"{path}: no whole line, so no journal (write one with: sim run --journal {path.name})")
    header = _parse(path, 1, pieces[0])
    if header.get("src") != "header" or header.get("format") != FORMAT:
        raise JournalError(f"{path}, line 1: not the header of a run's journal of format {FORMAT}")
    lines = tuple(_parse(path, i, piece) for i, piece in enumerate(pieces[1:], 2))
    _check_order(path, lines)
    return RunFile(path, header, lines, cut)


def _parse(path: Path, number: int, piece: bytes) -> dict[str, Any]:
    try:
        line = orjson.loads(piece)
    except orjson.JSONDecodeError as exc:
        raise JournalError(f"{path}, line {number}: broken before the end of the file ({exc}): no replay") from exc
    if not isinstance(line, dict) or line.get("src") not in ("header", "controller", "world") or (
        number > 1 and not isinstance(line.get("t"), int)
    ):
        raise JournalError(f"{path}, line {number}: not a line of a run's journal")
    return line


def _check_order(path: Path, lines: tuple[dict[str, Any], ...]) -> None:
    """Time never runs back in a file; where it does, a piece is missing or was put in."""
    last = 0
    for number, line in enumerate(lines, 2):
        if line["t"] < last:
            raise JournalError(f"{path}, line {number}: its time is before that of the line above; a part is missing")
        last = line["t"]
