"""Everything that is installed together, from one configuration."""

import functools
import os
import sys

from . import backward, collectives, dataload, facts, optimizer, tracing
from .config import Probe, backward_of
from .failures import FAILURES, contained
from .functions import FunctionProbes
from .imports import ImportWatch
from .library import FORMS, NO_BUDGET, Library, Options
from .lines import LineProbes
from .modules import ModuleProbes, path_of
from .patches import Patches
from .phases import Phase, kind_of
from .recorder import Recorder
from .spans import Spans
from .steps import Steps


class Session:
    """One hook at work in this process."""

    def __init__(self, config, facts_given=()):
        self.config = config
        self.facts = {**config.job, **dict(facts_given)}
        self.patches = Patches()
        library = Library()
        self.recorder = Recorder(library, self._options, lambda: facts.attributes(self.facts))
        self.spans = Spans(self.recorder)
        self.steps = Steps(library, self.recorder, config.features.auto_step)
        self._phases = {}
        self._undo = []
        probes = config.probes
        self.modules = ModuleProbes(self, [one for one in probes if one.module], config.features.backward == "modules")
        self.functions = FunctionProbes(self, [one for one in probes if one.function])
        self.lines = LineProbes(self, [one for one in probes if one.file])
        self._watch = ImportWatch(self._wants, self._arrived)

    def start(self):
        """Installs what can be installed now, and the rest as modules are imported."""
        self._watch.install()
        torch = sys.modules.get("torch")
        if torch is not None and not getattr(torch.__spec__, "_initializing", False):
            self._with_torch(torch)
        self.functions.install_loaded()
        if self.lines.watched:
            self.lines.install_loaded()

    def stop(self):
        """Puts everything back and closes the segment."""
        self._watch.remove()
        for undo in reversed(self._undo):
            undo()
        self.patches.undo()
        self.recorder.close()

    def on_stop(self, undo):
        """`undo()` is called by stop()."""
        self._undo.append(undo)

    def phase(self, name, kind=None):
        """The Phase of this name and kind, the same one each time."""
        key = (name, kind)
        if key not in self._phases:
            self._phases[key] = Phase(name, kind)
        return self._phases[key]

    @contained
    def enter(self, name, kind):
        """Begins the phase; gives the function that ends it, or None."""
        phase = self.phase(name, kind)
        return functools.partial(self.spans.leave, phase) if self.spans.enter(phase) else None

    @contained
    def attach(self, model, phase):
        """See picket_hook.attach()."""
        probe = Probe(phase=phase, kind=kind_of(phase), backward=backward_of(phase), module=path_of(type(model)))
        self.modules.attach(model, probe)

    def status(self):
        """What is installed, for people: see picket_hook.status()."""
        watched = (*self.modules.watched, *self.functions.watched, *self.lines.watched)
        return {
            "segment": self.recorder.path(),
            "overhead": self.recorder.plan(),
            "failures": FAILURES.count,
            "first_failure": FAILURES.first,
            "probes": {one.probe.target: one.matches for one in watched},
        }

    def _options(self):
        fence = self.config.fence
        directory = fence.directory or os.environ.get("PICKET_DIR") or ""
        return Options(
            directory=directory.encode() or None,
            fence_capacity=fence.fence_capacity,
            host_capacity=fence.host_capacity,
            phase_capacity=fence.phase_capacity,
            clock_period_ms=fence.clock_period_ms,
            form=FORMS[fence.form],
            overhead_budget=fence.overhead_budget or NO_BUDGET,
        )

    def _wants(self, spec):
        return spec.name == "torch" or self.functions.wants(spec) or self.lines.wants(spec)

    def _arrived(self, module):
        if module.__name__ == "torch":
            self._with_torch(module)
        self.functions.arrived(module)
        self.lines.arrived(module)

    def _with_torch(self, torch):
        features = self.config.features
        _install(tracing.use, self.recorder)
        _install(self.modules.install, torch)
        wanted = {
            backward.install: features.backward != "off",
            optimizer.install: features.optimizer,
            dataload.install: features.dataload,
            collectives.install: features.collectives,
        }
        for install, enabled in wanted.items():
            if enabled:
                _install(install, self, torch)


def _install(part, *arguments):
    """One part that does not fit this release of PyTorch leaves the others."""
    try:
        part(*arguments)
    except Exception as error:
        FAILURES.note(f"{part.__module__}.{part.__qualname__}", error)
