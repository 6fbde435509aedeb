"""Beginning and ending phases in eager code."""

import threading

from . import tracing


class Spans:
    """Phases open in each thread, so that a phase inside itself is counted once."""

    def __init__(self, recorder):
        self._recorder = recorder
        self._local = threading.local()

    def enter(self, phase):
        """True: the phase has begun, so leave() must follow in this thread. Never raises."""
        if tracing.is_compiling():
            return False
        try:
            names = self._local.names
        except AttributeError:
            names = self._local.names = set()
        if phase.name in names or not self._recorder.begin(phase):
            return False
        names.add(phase.name)
        return True

    def leave(self, phase):
        """The phase ends. Never raises."""
        self._local.names.discard(phase.name)
        self._recorder.end(phase)

    def leave_if_open(self, phase):
        """leave(), where enter() may have failed. Was the phase open?"""
        if phase.name not in getattr(self._local, "names", ()):
            return False
        self.leave(phase)
        return True
