"""Puts the fence library into the wheel where it has been built (make -C native); pyproject.toml holds all else."""

import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

LIBRARY = Path(__file__).resolve().parent.parent / "build" / "libpicket_fence.so"


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if LIBRARY.exists():
            shutil.copy2(LIBRARY, Path(self.build_lib) / "picket_hook" / LIBRARY.name)


class PlatformWheel(bdist_wheel):
    """Any Python 3 on this platform: the library is loaded by ctypes and knows no Python."""

    def get_tag(self):
        tag = super().get_tag()
        return ("py3", "none", tag[2]) if LIBRARY.exists() else tag


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return LIBRARY.exists()


setup(distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
