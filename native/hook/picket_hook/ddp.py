"""Gradient reductions of DistributedDataParallel, which its C++ side issues without torch.distributed's functions.

At a model's first forward pass a communication hook is registered that does what PyTorch does without one, bit for
bit, and stamps each bucket's all-reduce from its issue to its end. What the backward pass waits for them at its end is a
phase of its own on the stream that waits, so that it does not count as the rank's work. Models for which the user registered a hook, or
whose reductions differ (mixed precision by DDP, overlapped optimizers), are left alone.
"""

import atexit
import functools
import itertools
import time
import weakref

from . import tracing
from .failures import contained
from .phases import Phase

_PATIENCE_S = 1.0
_LANES = itertools.count(1 << 40)  # above any thread id; where the host clock is used there are no stream addresses


_callbacks = set()  # weak references to those that a thread of the backend still holds


@atexit.register
def _settle():
    """A thread that lets go of a callback needs the interpreter: one that has ended would abort the process."""
    deadline = time.monotonic() + _PATIENCE_S
    while _callbacks and time.monotonic() < deadline:
        time.sleep(0.001)


def install(session, calls, torch):
    """Watches the first forward pass of every model."""
    cls = torch.nn.parallel.DistributedDataParallel
    looked_at = weakref.WeakSet()
    forward = cls.forward

    @functools.wraps(forward)
    def watched(self, *args, **kwargs):
        if not tracing.is_compiling() and self not in looked_at:
            looked_at.add(self)
            _register(self, calls, torch)
        return forward(self, *args, **kwargs)

    def taken(original):
        @functools.wraps(original)
        def register(self, *args, **kwargs):
            looked_at.add(self)
            return original(self, *args, **kwargs)

        return register

    for name in ("register_comm_hook", "_register_builtin_comm_hook", "_register_fused_optim"):
        if hasattr(cls, name):
            session.patches.set(cls, name, taken(getattr(cls, name)))
    session.patches.set(cls, "forward", watched)


@contained
def _register(model, calls, torch):
    if getattr(model, "mixed_precision", None) is None:
        model.register_comm_hook(_Reductions(model.process_group, calls, torch), _reduce)


class _Reductions:
    """State of one model's hook."""

    def __init__(self, group, calls, torch):
        self.group, self._calls, self._torch = group, calls, torch
        self.factor = 1.0 / group.size()
        self._wait = Phase("all_reduce_wait", "comm", group=calls.groups.name(group))
        self._stream = None
        self._free = []  # lanes of the host clock without a reduction in flight

    @contained
    def begin(self, tensor):
        """Stamps the issue of a bucket's reduction; gives the function that stamps its end, or None."""
        calls = self._calls
        name = calls.groups.name(self.group)
        call = calls.issued("all_reduce", name, tensor.numel() * tensor.element_size())
        if calls.recorder.capturing():
            return None  # a stream of our own would have to join the capture again
        lane = self._lane(tensor)
        phase = calls.begin(call, lane)
        return functools.partial(self._end, phase, lane, tensor.is_cuda) if phase else None

    @contained
    def wait_behind_backward(self):
        """Stamps from the end of the backward pass, which has issued its last bucket, to that of its reductions.

        DDP waits in a callback that it queues next; a callback queued by a callback is the last to run.
        """
        queue = self._torch.autograd.Variable._execution_engine.queue_callback
        queue(lambda: self._begin_wait(queue))

    @contained
    def _begin_wait(self, queue):
        recorder = self._calls.recorder
        if not recorder.capturing() and recorder.begin(self._wait):
            queue(lambda: recorder.end(self._wait))

    def _lane(self, tensor):
        if not tensor.is_cuda:
            return self._free.pop() if self._free else next(_LANES)
        if self._stream is None:
            self._stream = self._torch.cuda.Stream(tensor.device)
        self._stream.wait_stream(self._torch.cuda.current_stream())
        return self._stream.cuda_stream

    @contained
    def _end(self, phase, lane, on_gpu):
        if on_gpu:
            self._stream.wait_stream(self._torch.cuda.current_stream())  # the callback's, which is behind the reduction
        self._calls.end(phase, lane)
        if not on_gpu:
            self._free.append(lane)


def _reduce(reductions, bucket):
    tensor = bucket.buffer()
    tensor.mul_(reductions.factor)  # as PyTorch's C++ does it: a division would round otherwise
    end = reductions.begin(tensor)
    if bucket.is_last():
        reductions.wait_behind_backward()
    future = reductions.group.allreduce([tensor]).get_future()

    def finished(done):
        if end is not None:
            end()
        return done.value()[0]

    _callbacks.add(weakref.ref(finished, _callbacks.discard))
    return future.then(finished)
