"""Starts the hook in every Python process that has this folder first in PYTHONPATH, so also in those an engine spawns.

Another `sitecustomize`, further down the path, is imported as it would have been.
"""

import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def _start_hook():
    sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))
    try:
        import picket_hook
    finally:
        sys.path.pop(0)
    picket_hook.install_from_environment()


def _import_next():
    others = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("PICKET_DISABLE", "0") in ("", "0"):
    _start_hook()
_import_next()
