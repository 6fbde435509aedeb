"""What went wrong inside the hook: counted, the first message kept and logged once, never raised into the engine."""

import functools
import logging
import threading

LOG = logging.getLogger("picket")


class Failures:
    """Counts failures of this process."""

    def __init__(self):
        self.count = 0
        self.first = None
        self._lock = threading.Lock()

    def note(self, where, problem):
        """Counts `problem` (an exception or a text) met in `where`."""
        with self._lock:
            self.count += 1
            if self.first is not None:
                return
            text = f"{type(problem).__name__}: {problem}" if isinstance(problem, BaseException) else str(problem)
            self.first = f"{where}: {text}"
        LOG.warning("picket: %s (the engine goes on; later failures are only counted)", self.first)


FAILURES = Failures()


def contained(function):
    """A failure inside `function` is noted and gives None."""

    @functools.wraps(function)
    def safe(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            FAILURES.note(function.__qualname__, error)
            return None

    return safe
