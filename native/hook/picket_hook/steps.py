"""Steps: which step the following work belongs to, and what it works on."""

import threading

from .failures import FAILURES, contained
from .library import StepPayload
from .phases import Phase

# Fields of a step that a caller may give; what is not given is unknown.
FIELDS = tuple(name for name, *_ in StepPayload._fields_ if name not in ("step", "requests", "reserved"))


class Steps:
    """Numbers steps and stamps the phase `step` around them.

    A step lasts until the next one begins, or to the end of a `with` block over what begin() gives. Automatic steps
    begin where a step of the optimizer has ended, and cease as soon as a caller tells of steps itself.
    """

    def __init__(self, library, recorder, automatic):
        self._library, self._recorder = library, recorder
        self._phase = Phase("step")
        self._lock = threading.RLock()
        self._number = -1
        self._open = False
        self.automatic = automatic

    def begin(self, number=None, requests=(), **facts):
        """A step begins. `number`: one more than the last where None. `facts`: see FIELDS. Never raises."""
        self.automatic = False
        self._begin(number, requests, facts)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.end()

    def begin_automatic(self):
        """The next step begins, unless a caller tells of steps."""
        if self.automatic:
            self._begin(None, (), {})

    @contained
    def end(self):
        """The step in progress ends."""
        with self._lock:
            if self._open:
                self._open = False
                self._recorder.end(self._phase)

    @contained
    def _begin(self, number, requests, facts):
        with self._lock:
            self.end()
            self._number = self._number + 1 if number is None else int(number)
            payload = self._library.step_unknown()
            payload.step = self._number
            for name, value in facts.items():
                if name in FIELDS:
                    setattr(payload, name, value)
                else:
                    FAILURES.note("step", f'"{name}" is unknown; known: {", ".join(("step", "requests", *FIELDS))}')
            self._recorder.step(payload, requests)
            self._open = self._recorder.begin(self._phase)
