"""The C interface of libpicket_fence.so (native/include/picket_fence.h) through ctypes."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

LIBRARY_NAME = "libpicket_fence.so"
FORMS = {"auto": 0, "side": 1, "in_line": 2}
NO_BUDGET = -1.0
NO_DEVICE = -1


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("device", c_int32),
        ("directory", c_char_p),
        ("attributes", c_char_p),
        ("fence_capacity", c_uint32),
        ("host_capacity", c_uint32),
        ("phase_capacity", c_uint32),
        ("clock_period_ms", c_uint32),
        ("form", c_int32),
        ("overhead_budget", c_double),
    ]


class PhaseDescription(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int32),
        ("layer", c_int32),
        ("op", c_char_p),
        ("group", c_char_p),
        ("bytes", c_int64),
    ]


class StepPayload(ctypes.Structure):
    _fields_ = [
        ("step", c_int64),
        ("context_tokens", c_int64),
        ("cached_tokens", c_int64),
        ("recomputed_tokens", c_int64),
        ("tokens", c_int32),
        ("prefill_tokens", c_int32),
        ("decode_tokens", c_int32),
        ("batch", c_int32),
        ("graph", c_int32),
        ("microbatch", c_int32),
        ("running", c_int32),
        ("waiting", c_int32),
        ("preempted", c_int32),
        ("requests", c_int32),
        ("kv_usage", c_float),
        ("reserved", c_uint32),
    ]


class CallPayload(ctypes.Structure):
    _fields_ = [("bytes", c_int64), ("sequence", c_int64), ("microbatch", c_int32), ("reserved", c_uint32)]


_SIGNATURES = {
    "picket_open": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "picket_close": (c_int, [c_void_p]),
    "picket_phase_register": (c_int, [c_void_p, POINTER(PhaseDescription), POINTER(c_uint32)]),
    "picket_begin": (c_int, [c_void_p, c_uint32, c_void_p]),
    "picket_end": (c_int, [c_void_p, c_uint32, c_void_p]),
    "picket_begin_call": (c_int, [c_void_p, c_uint32, c_void_p, POINTER(CallPayload)]),
    "picket_step": (c_int, [c_void_p, POINTER(StepPayload), POINTER(c_char_p), c_void_p]),
    "picket_step_unknown": (StepPayload, []),
    "picket_mark": (c_int, [c_void_p, c_uint32, c_int, POINTER(CallPayload)]),
    "picket_overhead": (c_int, [c_void_p, c_char_p, c_size_t]),
    "picket_control_of": (c_void_p, [c_void_p]),
    "picket_path": (c_char_p, [c_void_p]),
    "picket_error": (c_char_p, []),
}


class LibraryError(OSError):
    """The fence library is missing, too old, or refused a call."""


def find():
    """Path of the library: $PICKET_FENCE_LIB, else beside this file, else the build of this checkout.

    Raises LibraryError naming what was looked for.
    """
    named = os.environ.get("PICKET_FENCE_LIB")
    package = Path(__file__).resolve().parent
    places = [Path(named)] if named else [package / LIBRARY_NAME, package.parents[1] / "build" / LIBRARY_NAME]
    for place in places:
        if place.is_file():
            return place
    looked = " or ".join(map(str, places))
    raise LibraryError(f"no fence library at {looked}; run `make -C native`, or set PICKET_FENCE_LIB to its path")


class Library:
    """The loaded library. Its functions are attributes without the prefix `picket_`: begin, end, mark ..."""

    def __init__(self, path=None):
        path = path or find()
        try:
            loaded = ctypes.CDLL(str(path))
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name.removeprefix("picket_"), function)
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{path} does not load ({error}); build it anew with `make -C native`") from error

    def message(self):
        """Text of the calling thread's last failure."""
        return self.error().decode(errors="replace")

    def plan(self, handle):
        """What was chosen last to stay within the overhead budget, and why."""
        text = ctypes.create_string_buffer(1024)
        return text.value.decode(errors="replace") if self.overhead(handle, text, len(text)) == 0 else None

    def opened(self, options):
        """Opens a segment and gives its handle, or None where the library is disabled. Raises LibraryError."""
        handle = c_void_p()
        options.size = ctypes.sizeof(Options)
        if self.open(byref(options), byref(handle)) < 0:
            raise LibraryError(self.message())
        return handle if handle.value else None

    def registered(self, handle, phase, kind):
        """Tells the library of a Phase of this kind number and gives its id. Raises LibraryError."""
        description = PhaseDescription(_bytes(phase.name), kind, -1, _bytes(phase.op), _bytes(phase.group), phase.bytes)
        number = c_uint32()
        if self.phase_register(handle, byref(description), byref(number)) < 0:
            raise LibraryError(self.message())
        return number.value


def _bytes(text):
    return None if text is None else text.encode()
