"""Reading TOML so that a fault can be shown with its line, which tomllib does not keep."""

import re

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*[.=]""")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


class ConfigError(ValueError):
    """A configuration that cannot be used: the message names file, line, key and remedy."""

    def __init__(self, file, line, problem, remedy):
        super().__init__(f"{file}:{line}: {problem}; {remedy}")
        self.file, self.line = str(file), line


def parse(file, text):
    """The tables of a TOML text. Raises ConfigError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise ConfigError(file, line, f"not TOML ({_AT_LINE.sub('', str(error))})", "see https://toml.io") from None


class Lines:
    """Where tables and keys are in a text. A key of an inline table is found at the line of that table."""

    def __init__(self, text):
        self._lines = {}
        counts = {}
        path = ()
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                path = tuple(part.strip().strip("\"'") for part in header[2].split("."))
                if header[1] == "[[":
                    counts[path] = counts.get(path, -1) + 1
                    path = (*path, counts[path])
                self._lines.setdefault(path, number)
            elif key := _KEY.match(line):
                self._lines.setdefault((*path, key[1].strip("\"'")), number)

    def of(self, path):
        """Line of a path such as ("probes", 2, "phase"), or of the nearest thing around it that has one."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)
