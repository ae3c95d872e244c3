"""A line on standard error that says how far a call is."""

from __future__ import annotations

import sys
import time
from typing import Callable, Optional, TextIO, Union

#: Seconds between two changes of the line.
_PATIENCE = 0.1


class Progress:
    """How many tasks are done, of how many, and how long the rest will take."""

    def __init__(
        self,
        total: Optional[int] = None,
        stream: Optional[TextIO] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._started = clock()
        self._shown_at = float("-inf")
        self._width = 0
        self._done = 0

    def advance(self) -> None:
        """Takes note of one more task."""
        self._done += 1
        self._show(self._text())

    def download(self, file: str, done: int, total: int) -> None:
        """Takes note of how much of a file is there."""
        self._show(f"{file}: {done / 1e6:.1f} of {total / 1e6:.1f} MB")

    def close(self) -> None:
        """Shows the last state and ends the line, if there is one."""
        if self._done:
            self._show(self._text(), at_once=True)
        if self._width:
            self._write("\n")
            self._width = 0

    def _text(self) -> str:
        passed = self._clock() - self._started
        if self._total is None:
            return f"{self._done} tasks, {duration(passed)}"
        counts = f"{self._done}/{self._total} tasks"
        if self._done >= self._total:
            return f"{counts}, {duration(passed)}"
        return f"{counts}, {duration(passed / self._done * (self._total - self._done))} left"

    def _show(self, text: str, at_once: bool = False) -> None:
        now = self._clock()
        if now - self._shown_at < _PATIENCE and not at_once:
            return
        self._shown_at = now
        # Blanks cover what is left of a longer line.
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # A terminal that has gone away is no reason to lose answers.
            pass


def duration(seconds: float) -> str:
    """A duration to the second, as a person would write it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def show(progress: Union[bool, str], total: Optional[int]) -> Optional[Progress]:
    """What shows progress: nothing where no terminal would show it, unless it is asked for always."""
    if isinstance(progress, str) and progress != "always":
        raise ValueError(f"progress is {progress!r}; use True, False or 'always'")
    if not progress or sys.stderr is None:
        return None
    if progress != "always" and not sys.stderr.isatty():
        return None
    return Progress(total)
