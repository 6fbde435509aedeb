"""Runs a program under the hook, checks a configuration, or tells where the autoload folder is."""

import argparse
import os
import runpy
import sys
from pathlib import Path

AUTOLOAD = Path(__file__).resolve().parent / "autoload"


def main(arguments=None):
    """The command line. Gives the exit code: 0, or 2 for a configuration that cannot be used."""
    parser = argparse.ArgumentParser(prog="picket-hook", description=__doc__)
    parser.add_argument("--config", help="configuration, else $PICKET_CONFIG")
    parser.add_argument("--check", action="store_true", help="only check the configuration and list its probes")
    parser.add_argument("--autoload-path", action="store_true", help="print the folder to put first in PYTHONPATH")
    parser.add_argument("-m", "--module", action="store_true", help="PROGRAM is the name of a module")
    parser.add_argument("program", nargs="?", help="script or module to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    if options.config:
        os.environ["PICKET_CONFIG"] = options.config  # for processes that the program spawns
    if options.autoload_path:
        print(AUTOLOAD)
        return 0
    if options.check:
        return _check(os.environ.get("PICKET_CONFIG"))
    if not options.program:
        parser.error("no program to run")
    return _run(options)


def _check(path):
    from . import config

    try:
        probes = config.load(path).probes if path else ()
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for probe in probes:
        print(f"{probe.target} -> {probe.phase} ({probe.kind})")
    return 0


def _run(options):
    from . import install

    try:
        install()
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(options.program).resolve().parent)
        runpy.run_path(options.program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
