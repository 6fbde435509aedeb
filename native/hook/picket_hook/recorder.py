"""Writes borders into this process's segment. Every method is safe to call at any time and never raises."""

import os
import sys
import threading
from ctypes import byref, c_char_p, c_uint64

from . import layout_generated as layout
from .failures import FAILURES, LOG, contained
from .library import NO_DEVICE, CallPayload
from .phases import KINDS, UNREGISTERED

NOT_YET, OPEN, OFF = range(3)


class Recorder:
    """One segment, opened by the first record, when the rank and the GPU are known.

    `options()` gives fresh library.Options without device and attributes, `attributes()` the JSON of job and rank.
    """

    def __init__(self, library, options, attributes):
        self._library = library
        self._make_options, self._attributes = options, attributes
        self._begin, self._end = library.begin, library.end
        self._phases = []
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self):
        """As new: the child of a fork writes to a segment of its own."""
        self._lock = threading.RLock()  # opening calls functions that may be probed themselves
        self._state = NOT_YET
        self._handle = None
        self._gpu = None
        self._raw_stream = self._capturing = None
        self._plans, self._told = None, 0
        for phase in self._phases:
            phase.id = UNREGISTERED
        self._phases = []

    def begin(self, phase, stream=None):
        """The phase begins on `stream`, else on PyTorch's current one. False: nothing was recorded, so do not end()."""
        try:
            if self._state != OPEN and not self._open():
                return False
            number = phase.id if phase.id >= 0 else self._register(phase)
            if phase.on_host:
                return self._ok(self._library.mark(self._handle, number, layout.HOST_BEGIN, None))
            return self._ok(self._begin(self._handle, number, stream or self.stream()))
        except Exception as error:
            FAILURES.note("begin", error)
            return False

    def end(self, phase, stream=None):
        """The phase ends. See begin()."""
        try:
            if phase.on_host:
                return self._ok(self._library.mark(self._handle, phase.id, layout.HOST_END, None))
            return self._ok(self._end(self._handle, phase.id, stream or self.stream()))
        except Exception as error:
            FAILURES.note("end", error)
            return False

    def begin_call(self, phase, size, sequence, stream=None):
        """begin() with the message size in bytes and the number of this call. Not while capturing()."""
        try:
            if self._state != OPEN and not self._open():
                return False
            number = phase.id if phase.id >= 0 else self._register(phase)
            call = CallPayload(size, sequence, -1, 0)
            return self._ok(self._library.begin_call(self._handle, number, stream or self.stream(), byref(call)))
        except Exception as error:
            FAILURES.note("begin_call", error)
            return False

    @contained
    def step(self, payload, requests):
        """The work that follows belongs to this step; `requests` are its request ids."""
        if self._state != OPEN and not self._open():
            return False
        names = (c_char_p * len(requests))(*(str(name).encode() for name in requests)) if requests else None
        payload.requests = len(requests)
        self._tell_plan()
        return self._ok(self._library.step(self._handle, byref(payload), names, self.stream()))

    def stream(self):
        """The current CUDA stream's pointer; None on the host clock, where the thread stands for it."""
        return None if self._gpu is None else self._raw_stream(self._gpu)

    def capturing(self):
        """Is the current stream being captured into a CUDA graph?"""
        return self._gpu is not None and self._capturing()

    def path(self):
        """The segment's file; None while there is none."""
        return self._library.path(self._handle).decode() if self._handle else None

    def plan(self):
        """What the library chose to stay within the overhead budget, and why; None while there is no segment."""
        return self._library.plan(self._handle) if self._handle else None

    def _tell_plan(self):
        """Logs each new choice once."""
        if self._plans is not None and self._plans.value != self._told:
            self._told = self._plans.value
            LOG.info("picket: %s", self.plan())

    def close(self):
        """Ends recording for good."""
        with self._lock:
            if self._handle:
                self._library.close(self._handle)
            self._state = OFF

    def _ok(self, code):
        if code < 0:
            FAILURES.note("fence library", self._library.message())
        return code == 0

    def _register(self, phase):
        number = self._library.registered(self._handle, phase, KINDS[phase.kind])
        phase.id = number
        self._phases.append(phase)
        return number

    def _open(self):
        with self._lock:
            if self._state != NOT_YET:
                return self._state == OPEN
            torch = sys.modules.get("torch")
            if torch is not None and not self._may_open(torch):
                return False
            self._state = OFF  # a segment that cannot be had is not asked for at every border
            self._handle = self._library.opened(self._options(torch))
            if self._handle is None:
                return False
            self._plans = c_uint64.from_address(self._library.control_of(self._handle) + layout.CONTROL_PLANS)
            self._state = OPEN
            return True

    def _may_open(self, torch):
        if not hasattr(torch, "cuda"):
            return False  # still being imported
        if torch.utils.data.get_worker_info() is not None:
            self._state = OFF
            return False
        if torch.version.cuda is None or torch.cuda.device_count() == 0:
            return True
        # On the host clock for want of a context, a segment would stay there.
        return torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing()

    def _options(self, torch):
        options = self._make_options()
        options.attributes = self._attributes().encode()
        options.device = NO_DEVICE
        if torch is not None and torch.version.cuda is not None and torch.cuda.is_initialized():
            self._gpu = options.device = torch.cuda.current_device()
            self._raw_stream = torch._C._cuda_getCurrentRawStream
            self._capturing = torch.cuda.is_current_stream_capturing
        return options
