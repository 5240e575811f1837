"""``sim import LOG``: a raw log of the old manager's entrypoint → a scenario skeleton (field case M1475).

What it reads: when each stage began, the benchmark's size, how it ended, the threshold, and the dashboard's row of the
instance (card, price, RAM, age, and the operator's remark on $/proof). What a log cannot say (the machine's truth) is
left to the model, or marked as a guess in a comment. Lines that it cannot use are returned, with their reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta

from sim.table import ScenarioError

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?")
_ENTRY = re.compile(r"\[entrypoint\]\s*(\d\d):(\d\d):(\d\d)\s+(.*)")
_START = re.compile(
    r"Starting benchmark:\s*(\d{1,6}) proofs?, concurrency (\d{1,6}), partition-workers (\d{1,6})\b", re.I)
_EXIT = re.compile(r"(\S+\.sh) exited with error(?:.*?(?:code|status)\s*(\d{1,6})\b)?", re.I)
_RATE = re.compile(r"Benchmark result:\s*(\d{1,9}(?:\.\d+)?) proofs/hour", re.I)
_FAILED = re.compile(r"Benchmark FAILED:\s*(\d{1,9}(?:\.\d+)?) proofs/hour < min_rate (\d{1,9}(?:\.\d+)?)", re.I)
_PASSED = re.compile(r"Benchmark (?:PASSED|ok)\b.*?(\d{1,9}(?:\.\d+)?) proofs/hour", re.I)
_WARM = re.compile(r"warm-?up.*?(?:finished|done|complete)\D*(\d{1,9}(?:\.\d+)?)\s*s", re.I)
_ROW = re.compile(r"\bC\.(\d+)\s+([1-9]\d?)x\s+(.+?)\s{2,}")
_PRICE = re.compile(r"\$(\d{1,9}(?:\.\d+)?)")
_RAM = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*G(?:i?B)\b")
_AGE = re.compile(r"\s(?:(\d{1,6})h\s*)?(\d{1,6})m\s")
_REMARK = re.compile(r"\bat\s+\$?(0\.\d+)\b")
_PARAM = re.compile(r"Parameter file .* is ok")
_LINE_MAX = 10_000  # characters; a longer line is no line of a log
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HARMLESS = ("Signaled param-done", "parameter and key-fetching complete", "will be destroyed by manager")


@dataclass(slots=True)
class Found:
    """What the log said. Clock times are s since midnight (of the first day) in the log's own clock."""

    first: float | None = None
    last: float | None = None
    params_done: float | None = None
    bench_start: float | None = None
    bench_end: float | None = None
    proofs: int | None = None
    concurrency: int | None = None
    partition_workers: int | None = None
    script: str = ""
    exit_code: int | None = None
    rate: float | None = None
    min_rate: float | None = None
    warm_up_s: float | None = None
    params_ok: int = 0
    label: str = ""
    gpus: int = 1
    gpu: str = ""
    price: float | None = None
    ram_gib: float | None = None
    age_min: int | None = None
    usd_per_proof: float | None = None
    unused: list[tuple[int, str, str]] = field(default_factory=list)


def read(text: str) -> Found:
    """Everything that the log says; ``unused``: (line number, why, line) of what it could not use."""
    found = Found()
    for number, raw in enumerate(text.splitlines(), 1):
        line = _CONTROL.sub(" ", _ANSI.sub("", raw[:_LINE_MAX])).strip()
        if len(raw) > _LINE_MAX:
            found.unused.append((number, "too long", line[:100] + "..."))
        elif line:
            at = _time_of(line, found)
            if not _take(line, at, found):
                found.unused.append((number, "no time and no known message" if at is None else "no known message",
                                     line))
    return found


def _time_of(line: str, found: Found) -> float | None:
    match = _ISO.search(line) or _ENTRY.search(line)
    if match is None:
        return None
    h, m, s = match.groups()[3:6] if match.re is _ISO else match.groups()[:3]
    if int(h) > 23 or int(m) > 59 or int(s) > 60:
        return None
    at = int(h) * 3600 + int(m) * 60 + int(s) + (float(f"0.{match[7]}") if match.re is _ISO and match[7] else 0.0)
    while found.last is not None and at < found.last - 43_200:
        at += 86_400  # past midnight; the log's lines carry no day
    found.first = at if found.first is None else found.first
    found.last = at if found.last is None else max(found.last, at)
    return at


def _take(line: str, at: float | None, found: Found) -> bool:
    """Takes what the line says; False when it says nothing that is known."""
    if _dashboard(line, found):
        return True
    if at is None:
        return False
    if _PARAM.search(line):
        found.params_ok += 1
    elif start := _START.search(line):
        found.bench_start = at
        found.proofs, found.concurrency, found.partition_workers = (int(n) for n in start.groups())
    elif failed := _FAILED.search(line):
        found.rate, found.min_rate = float(failed[1]), float(failed[2])
    elif passed := _PASSED.search(line):
        found.rate, found.bench_end = float(passed[1]), found.bench_end or at
    elif ended := _EXIT.search(line):
        found.bench_end, found.script = at, ended[0]
        found.exit_code = int(ended[2]) if ended[2] else None
    elif rate := _RATE.search(line):
        found.rate, found.bench_end = float(rate[1]), found.bench_end or at
    elif warm := _WARM.search(line):
        found.warm_up_s = float(warm[1])
    elif "Parameter fetch complete" in line:
        found.params_done = at
    else:
        return any(text in line for text in _HARMLESS)
    return True


def _dashboard(line: str, found: Found) -> bool:
    """The dashboard's row of the instance, with what the operator wrote behind it."""
    row = _ROW.search(line)
    if row is None:
        return False
    found.label, found.gpus, found.gpu = row[1], int(row[2]), row[3].strip()
    rest = line[row.end():]
    price, ram, age, remark = _PRICE.search(rest), _RAM.search(rest), _AGE.search(rest), _REMARK.search(rest)
    found.price = float(price[1]) if price else None
    found.ram_gib = float(ram[1]) if ram else None
    found.age_min = int(age[1] or 0) * 60 + int(age[2]) if age else None
    found.usd_per_proof = float(remark[1]) if remark else None
    return True


# ---------------------------------------------------------------- the skeleton


def skeleton(found: Found, name: str) -> str:
    """A scenario that runs as it stands. ScenarioError when the log says nothing about a benchmark or an instance."""
    if found.bench_start is None and not found.gpu:
        raise ScenarioError(f"{name}: neither a benchmark nor a dashboard row in it; give the instance's raw log")
    known = round(found.price / found.usd_per_proof, 1) if found.price and found.usd_per_proof else None
    out = [
        f'name = "{_plain(name)}"',
        f'about = "Imported from {_plain(name)}: {_what_happened(found)}"',
        f'source = ["{_plain(name)}"]',
        "hours = 6",
        "",
        *_timeline(found),
        "[fleet]",
        "deploy = [{ machine = 1001, at = \"0m\""
        + (f", min_rate = {found.min_rate}" if found.min_rate else "") + " }]",
        "",
        "[[machine]]",
        "id = 1001   # the log names no machine_id" + (f"; its label was C.{found.label}" if found.label else ""),
        "host = 101  # nor a host_id",
        *_hardware(found, known),
    ]
    return "\n".join([*out, *_failure(found), *_expect(found, known)]) + "\n"


def _hardware(found: Found, known: float | None) -> list[str]:
    out = [f'gpu = "{_plain(found.gpu) or "RTX 4090"}"' + ("" if found.gpu else "  # not in the log")]
    out.append(f"gpus = {found.gpus}")
    out.append(f"ram_gib = {found.ram_gib:g}" if found.ram_gib else "ram_gib = 504  # not in the log")
    out.append(f"price_usd_per_hour = {found.price}" if found.price else "price_usd_per_hour = 0.30  # not in the log")
    rate = known or (found.rate if found.rate else None)
    if rate:
        why = f"  # {found.price} / {found.usd_per_proof}, by the operator's remark" if known else "  # as measured"
        out.append(f"rate_proofs_per_hour = {rate:g}{why}")
    if known:
        out.append(f"known_rate_proofs_per_hour = {known:g}")
    if found.partition_workers and found.concurrency:
        out.append(f"first_sizing = {{ partition_workers = {found.partition_workers}, "
                   f"concurrency = {found.concurrency} }}")
    if found.warm_up_s:
        out.append(f"warm_up_s = {found.warm_up_s:g}")
    return out


def _failure(found: Found) -> list[str]:
    if not found.script or found.bench_start is None or found.bench_end is None:
        return []
    after = found.bench_end - found.bench_start
    if after < 0:
        return ["", f"# {_plain(found.script)} ended {-after:.0f} s before the benchmark began: it ended another one."]
    code = min(found.exit_code, 255) if found.exit_code is not None else 1
    return [
        "",
        f"# The script ended by an error after {after:.0f} s. If this size of memory explains it, the model brings it",
        "# by itself: then take this fault out.",
        "[[fault]]",
        'kind = "prover.bench_error"',
        "machine = 1001",
        f'at = "batch+{after:.0f}s"',
        f"exit_code = {code}" + ("" if found.exit_code is not None else "  # not in the log"),
        f'text = "{_plain(found.script)}"',
    ]


def _expect(found: Found, known: float | None) -> list[str]:
    good = known is not None and (found.min_rate is None or known >= found.min_rate)
    if not good and not found.script:
        return []
    return ["", "[[expect.rental]]", "machine = 1001", *(['ends = "active"', "kills = 0"] if good else [])]


def _timeline(found: Found) -> list[str]:
    def at(value: float | None) -> str:
        return "?" if value is None else str(timedelta(seconds=int(value) % 86_400))

    out = ["# From the log:"]
    out.append(f"#   first line {at(found.first)}, last line {at(found.last)}"
               + (f", up {found.age_min} min by the dashboard" if found.age_min else ""))
    if found.params_ok or found.params_done is not None:
        out.append(f"#   parameters complete {at(found.params_done)} ({found.params_ok} files checked)")
    if found.bench_start is not None:
        out.append(f"#   benchmark {at(found.bench_start)}: {found.proofs} proofs, concurrency {found.concurrency}, "
                   f"partition_workers {found.partition_workers}")
    if found.bench_end is not None:
        out.append(f"#   ended {at(found.bench_end)}" + (
            f", {found.bench_end - found.bench_start:.0f} s after its start" if found.bench_start is not None else "")
            + f": {found.script or 'with a result'}")
    if found.rate is not None:
        out.append(f"#   reported as {found.rate:g} proofs/h" + (
            f" against min_rate {found.min_rate}" if found.min_rate is not None else ""))
    return [*out, ""]


def _what_happened(found: Found) -> str:
    if found.script and found.bench_start is not None and found.bench_end is not None:
        return f"the benchmark ended by an error after {found.bench_end - found.bench_start:.0f} s"
    if found.rate is not None:
        return f"the benchmark gave {found.rate:g} proofs/h"
    return "the benchmark's end is not in the log"


def _plain(text: str) -> str:
    return _CONTROL.sub(" ", text.replace("\\", "/").replace('"', "'"))
