"""Picket's hook for PyTorch engines: stamps phase borders of training and serving into shared memory.

    import picket_hook
    picket_hook.install("picket.toml")

PICKET_DISABLE=1 turns all of it off. docs/hook.md has the configuration and how to attach to engines.
"""

import os

__all__ = ["attach", "describe", "install", "install_from_environment", "phase", "status", "step", "stop"]

_session = None
_facts = {}
_disabled = os.environ.get("PICKET_DISABLE", "0") not in ("", "0")


def install(config=None):
    """Starts the hook in this process. A second call changes nothing.

    config: path of a TOML file; None: $PICKET_CONFIG, else features without probes. Raises ConfigError (its message
    names file, line, key and remedy) or OSError for a file that cannot be used; any other trouble is logged, and the
    engine runs without the hook. Returns whether the hook is on.
    """
    global _session
    if _disabled or _session is not None:
        return _session is not None
    from . import config as configuration

    path = config or os.environ.get("PICKET_CONFIG")
    return _start(configuration.load(path) if path else configuration.default())


def install_from_environment(text=""):
    """install() for plugins, which must not raise: $PICKET_CONFIG, else the configuration `text`."""
    if _disabled or _session is not None:
        return _session is not None
    from . import config as configuration
    from .failures import FAILURES

    path = os.environ.get("PICKET_CONFIG")
    try:
        return _start(configuration.load(path) if path else configuration.from_text(text))
    except Exception as error:
        FAILURES.note("configuration", error)
        return False


def _start(config):
    global _session
    from .failures import FAILURES
    from .session import Session

    session = None
    try:
        session = Session(config, _facts)
        session.start()
    except Exception as error:
        FAILURES.note("install", error)
        if session is not None:
            session.stop()
        return False
    _session = session
    return True


def stop():
    """Takes the hook out and closes the segment."""
    global _session
    session, _session = _session, None
    if session is not None:
        session.stop()


def describe(**facts):
    """Facts of the job or the rank for the segment (job, run, rank, model, engine, dp, tp, pp, ep, stage).

    They count until the first border is stamped.
    """
    _facts.update(facts)
    if _session is not None:
        _session.facts.update(facts)


def attach(model, phase="forward"):
    """Makes the class of `model` a probe, and wraps probed classes in a model that was built before install()."""
    if _session is not None:
        _session.attach(model, phase)
    return model


def step(step=None, requests=(), **facts):
    """A step begins; it lasts until the next, or to the end of a `with` block.

    step: its number, else one more than the last. requests: ids. Facts: tokens, prefill_tokens, decode_tokens, batch,
    graph (CUDA graph batch size, 0 eager), context_tokens, cached_tokens, recomputed_tokens, microbatch, running,
    waiting, preempted, kv_usage.
    """
    if _session is None:
        return _Scope(None, None)
    return _session.steps.begin(step, requests, **facts)


def phase(name, kind=None):
    """A context manager and decorator that stamps a phase. kind: compute, comm, memory, host; else by the name."""
    return _Scope(name, kind)


def status():
    """What the hook does.

    {"enabled", "segment", "overhead", "failures", "first_failure", "probes": {target: matches}}; overhead tells which
    borders are stamped to stay within the budget, and why.
    """
    if _session is None:
        return {"enabled": False}
    return {"enabled": True, **_session.status()}


class _Scope:
    """A phase of one's own. Looks for the hook when it is entered, so that it may be made before install()."""

    def __init__(self, name, kind):
        self._name, self._kind = name, kind
        self._open = []

    def __enter__(self):
        self._open.append(_session.enter(self._name, self._kind) if _session and self._name else None)
        return self

    def __exit__(self, *exception):
        leave = self._open.pop()
        if leave:
            leave()

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def timed(*args, **kwargs):
            with _Scope(self._name, self._kind):
                return function(*args, **kwargs)

        return timed
