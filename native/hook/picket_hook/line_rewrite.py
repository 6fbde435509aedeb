"""Rewriting source so that a range of lines is a phase.

The statements become the body of

    with __picket_lines__(KEY) as __picket_scope__:
        __picket_scope__.enter(a, b)
        ...
        c = __picket_scope__.leave(c)

where a, b are variables that the statements read and c is what the last of them assigns: in compiled code the stamps
hang on those tensors. `return value` inside gets the same treatment as c. Where there is neither, compiled code is not
stamped.
"""

import ast

HELPER = "__picket_lines__"
SCOPE = "__picket_scope__"


class RangeError(ValueError):
    """The lines are not whole statements that follow each other in one block of a function."""


def rewrite(tree, start, end, key):
    """Rewrites `tree`, a module's, in place: lines `start` to `end` become the phase of `key`. Raises RangeError."""
    found = _Finder(start, end).find(tree)
    if found is None:
        raise RangeError("the lines are not whole statements that follow each other in one block of a function")
    function, block, first, last = found
    returns = _Returns()
    body = [returns.visit(statement) for statement in block[first : last + 1]]
    leave = [_assigned(name) for name in _targets(body[-1])[:1]]
    enter = [_entered(_inputs(function, body))] if leave or returns.found else []
    opened = ast.Call(ast.Name(HELPER, ast.Load()), [ast.Constant(key)], [])
    scope = ast.With([ast.withitem(opened, ast.Name(SCOPE, ast.Store()))], [*enter, *body, *leave])
    for node in ast.walk(scope):
        if isinstance(node, (ast.stmt, ast.expr)) and not hasattr(node, "lineno"):
            ast.copy_location(node, body[0])
    scope.end_lineno = body[-1].end_lineno
    block[first : last + 1] = [scope]


class _Helper:
    """Marks statements of ours: no line of the file."""


class _Finder(ast.NodeVisitor):
    def __init__(self, start, end):
        self._start, self._end = start, end
        self._functions = []
        self._found = None

    def find(self, tree):
        """(function, block, index of the first statement, index of the last), or None."""
        self.visit(tree)
        return self._found

    def visit_FunctionDef(self, node):
        self._functions.append(node)
        self.generic_visit(node)
        self._functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def generic_visit(self, node):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt) and self._functions:
                self._look_at(value)
        super().generic_visit(node)

    def _look_at(self, block):
        inside = [i for i, statement in enumerate(block) if self._touches(statement)]
        whole = all(self._start <= block[i].lineno and block[i].end_lineno <= self._end for i in inside)
        if inside and whole and self._found is None:
            self._found = (self._functions[-1], block, inside[0], inside[-1])

    def _touches(self, statement):
        return (
            not isinstance(statement, _Helper) and statement.lineno <= self._end and statement.end_lineno >= self._start
        )


class _Returns(ast.NodeTransformer):
    """Hands what is returned through the scope's end, but not in functions within."""

    found = False

    def visit_Return(self, node):
        if node.value is not None:
            self.found = True
            node.value = _call("leave", [node.value])
        return node

    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef


class _HelperExpr(ast.Expr, _Helper):
    pass


class _HelperAssign(ast.Assign, _Helper):
    pass


def _call(method, arguments):
    return ast.Call(ast.Attribute(ast.Name(SCOPE, ast.Load()), method, ast.Load()), arguments, [])


def _entered(inputs):
    return _HelperExpr(_call("enter", [ast.Name(name, ast.Load()) for name in inputs]))


def _assigned(name):
    return _HelperAssign([ast.Name(name, ast.Store())], _call("leave", [ast.Name(name, ast.Load())]))


def _inputs(function, body):
    """Parameters, and names assigned before by statements of the function itself, that `body` reads: surely bound."""
    arguments = function.args
    bound = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    for statement in function.body:
        if statement.lineno >= body[0].lineno:
            break
        bound |= set(_targets(statement))
    read = [node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(read) if name in bound]


def _targets(statement):
    """Names that an assignment surely binds."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) or statement.value is None:
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    nodes = [node for target in targets for node in getattr(target, "elts", [target])]
    return [node.id for node in nodes if isinstance(node, ast.Name)]
