"""The hook under test in this process."""

import picket_hook
from picket_hook.failures import FAILURES

import segment


class Hooked:
    def __init__(self, directory):
        self.directory = directory
        self.failures_expected = False
        self._path = None
        self._failures_before = FAILURES.count
        FAILURES.first = None

    def install(self, text=""):
        """Installs a configuration; its [fence] directory is the test's."""
        config = self.directory / "picket.toml"
        config.write_text(f'{text}\n[fence]\ndirectory = "{self.directory}"\n')
        assert picket_hook.install(config)
        return config

    def read(self):
        """Stops the hook and gives what it wrote."""
        self._path = picket_hook.status()["segment"]
        picket_hook.stop()
        return segment.read(self._path)

    def new_failures(self):
        return FAILURES.count - self._failures_before

    def first_failure(self):
        return FAILURES.first
