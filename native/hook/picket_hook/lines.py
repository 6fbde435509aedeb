"""Probes of lines of code. The code of the function around them is replaced; the function object stays, so that every
reference to it, wherever held, has them."""

import ast
import fnmatch
import inspect
import sys
import types

from . import tracing
from .failures import FAILURES
from .line_rewrite import HELPER, RangeError, rewrite
from .structures import is_tensor
from .wrapping import Timed


class LineProbes:
    """Rewrites functions of matching files when their module has been imported, or at once where it is already."""

    def __init__(self, session, probes):
        self._patches = session.patches
        self.watched = [Timed(session, probe) for probe in probes]

    def wants(self, spec):
        return any(_matches(spec.origin, one) for one in self.watched)

    def install_loaded(self):
        for module in list(sys.modules.values()):
            if type(module) is types.ModuleType and not getattr(module.__spec__, "_initializing", False):
                self.arrived(module)

    def arrived(self, module):
        """`module` has been imported."""
        file = getattr(module, "__file__", None)
        probes = [one for one in self.watched if _matches(file, one) and not one.matches]
        if not probes:
            return
        try:
            self._rewrite(module, file, probes)
        except (RangeError, OSError, SyntaxError) as error:
            FAILURES.note(probes[0].probe.where, f"{file} cannot be stamped: {error}")

    def _rewrite(self, module, file, probes):
        source = inspect.getsource(module)
        tree = ast.parse(source)
        for key, one in enumerate(probes):
            rewrite(tree, one.probe.line_start, one.probe.line_end, key)
        plain = compile(source, file, "exec", dont_inherit=True)
        stamped = compile(tree, file, "exec", dont_inherit=True)
        replaced = 0
        for function in _functions_of(module, file):
            before, after = _counterpart(function.__code__, plain), _counterpart(function.__code__, stamped)
            if before is None or before == after:
                continue
            if before != function.__code__:
                raise RangeError(
                    f"{function.__qualname__} is not what the file says: it has changed since it was loaded"
                )
            self._patches.set(function, "__code__", after)
            replaced += 1
        if replaced == 0:
            raise RangeError("their function is not found in the loaded module")
        self._patches.set(module, HELPER, lambda key: LineScope(probes[key]))
        for one in probes:
            one.matches += 1


class LineScope:
    """What rewritten code calls; Dynamo traces it."""

    def __init__(self, one):
        self._one = one
        self._entered = None
        self._open = False

    def __enter__(self):
        if not tracing.is_compiling():
            self._open = self._one.spans.enter(self._one.phase)
        return self

    def __exit__(self, *exception):
        if self._open:
            self._one.spans.leave(self._one.phase)

    def enter(self, *values):
        if tracing.is_compiling():
            tensors = [value for value in values if is_tensor(value)]
            if tensors:
                self._entered = tracing.enter(self._one.borders, tensors[0])

    def leave(self, value):
        if self._entered is None:
            return value
        return tracing.leave(self._one.borders, self._entered, value)


def _matches(file, one):
    return bool(file) and fnmatch.fnmatchcase(file, one.probe.file)


def _functions_of(module, file):
    """Functions of the file that the module's names, its classes and their wrappers lead to."""
    found, waiting = {}, list(vars(module).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, (staticmethod, classmethod)):
            waiting.append(value.__func__)
        elif isinstance(value, property):
            waiting += [value.fget, value.fset]
        elif isinstance(value, type):
            if value.__module__ == module.__name__ and id(value) not in found:
                found[id(value)] = None
                waiting += vars(value).values()
        elif isinstance(value, types.FunctionType) and id(value) not in found:
            found[id(value)] = value if value.__code__.co_filename == file else None
            waiting += [cell.cell_contents for cell in value.__closure__ or () if _is_function(cell)]
    return [value for value in found.values() if value is not None]


def _is_function(cell):
    try:
        return isinstance(cell.cell_contents, types.FunctionType)
    except ValueError:  # still empty
        return False


def _counterpart(code, root):
    """The code object below `root` that stands at the same place of the file as `code`."""
    for constant in root.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == code.co_name and constant.co_firstlineno == code.co_firstlineno:
                return constant
            if (inner := _counterpart(code, constant)) is not None:
                return inner
    return None
