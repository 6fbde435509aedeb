"""The hook's configuration: one TOML file, checked key by key. docs/hook.md describes it."""

import difflib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from .engines import STEP_FACTS
from .library import FORMS
from .phases import KINDS, kind_of
from .toml_file import ConfigError, Lines, parse

PRESETS = Path(__file__).resolve().parent / "presets"
BACKWARD = ("off", "step", "modules")
MAX_NAME_BYTES, MAX_OP_BYTES = 39, 23
_TARGETS = ("module", "function", "file")
_BACKWARD_SUFFIX = "_backward"


@dataclass(frozen=True)
class Probe:
    """One `[[probes]]` table: a target (module, function, or file with its lines) and the phase it is."""

    phase: str
    kind: str
    op: str | None = None
    backward: str = ""
    steps: str | None = None
    module: str | None = None
    function: str | None = None
    file: str | None = None
    line_start: int = 0
    line_end: int = 0
    where: str = ""

    @property
    def target(self):
        return self.module or self.function or f"{self.file}:{self.line_start}-{self.line_end}"


@dataclass(frozen=True)
class Features:
    """What is stamped without a probe."""

    backward: str = "step"
    optimizer: bool = True
    dataload: bool = True
    collectives: bool = True
    ddp: bool = True
    auto_step: bool = True


@dataclass(frozen=True)
class Fence:
    """How the segment is opened; zero and empty stand for the library's defaults."""

    directory: str = ""
    form: str = "auto"
    overhead_budget: float = 0.005  # share of a pass; 0: every border is stamped
    fence_capacity: int = 0
    host_capacity: int = 0
    phase_capacity: int = 0
    clock_period_ms: int = 0


@dataclass(frozen=True)
class Config:
    job: dict = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    fence: Fence = field(default_factory=Fence)
    probes: tuple[Probe, ...] = ()


_JOB_KEYS = ("name", "run", "engine", "engine_version", "model")
_TOP_KEYS = ("presets", "job", "features", "fence", "probes")
_PROBE_KEYS = (*_TARGETS, "line_start", "line_end", "phase", "kind", "op", "backward", "steps")


def load(path):
    """Reads a configuration file. Raises ConfigError, or OSError where it cannot be read."""
    path = Path(path)
    return from_text(path.read_text(encoding="utf-8"), path)


def from_text(text, file="<text>"):
    """Reads a configuration from its text; `file` is named in errors. Raises ConfigError."""
    return _Reader(text, file).config()


def preset_names():
    """Names that `presets` may list."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset(name):
    """Probes of a shipped preset."""
    return load(PRESETS / f"{name}.toml").probes


def default():
    """The configuration without a file: features only."""
    return Config()


class _Reader:
    def __init__(self, text, file):
        self._file = file
        self._lines = Lines(text)
        self._table = parse(file, text)

    def config(self):
        self._only(self._table, _TOP_KEYS, ())
        job = self._section("job")
        self._only(job, _JOB_KEYS, ("job",))
        for key in job:
            self._typed(job, key, str, ("job",))
        listed = self._list("presets")
        own = tuple(self._probe(table, index) for index, table in enumerate(self._list("probes")))
        # One's own probes win over a preset's: the first that matches is taken.
        shipped = tuple(probe for index, name in enumerate(listed) for probe in self._preset(name, index))
        job = {("job" if key == "name" else key): value for key, value in job.items()}
        return Config(job, self._features(), self._fence(), own + shipped)

    def _fail(self, path, problem, remedy):
        raise ConfigError(self._file, self._lines.of(path), problem, remedy)

    def _only(self, table, known, path):
        for key in table:
            if key in known:
                continue
            close = difflib.get_close_matches(key, known, 1)
            remedy = f'did you mean "{close[0]}"?' if close else f"known here: {', '.join(known)}"
            self._fail((*path, key), f'unknown key "{key}"', remedy)

    def _typed(self, table, key, kind, path):
        value = table[key]
        if type(value) is not kind and not (kind is float and type(value) is int):
            wanted = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
            wanted = wanted[kind]
            self._fail((*path, key), f'"{key}" is {value!r}', f"it must be {wanted}")
        return value

    def _section(self, name):
        table = self._table.get(name, {})
        if not isinstance(table, dict):
            self._fail((name,), f'"{name}" is not a table', f"write [{name}]")
        return table

    def _list(self, name):
        return self._typed(self._table, name, list, ()) if name in self._table else []

    def _one_of(self, value, known, path):
        if value not in known:
            close = difflib.get_close_matches(str(value), known, 1)
            hint = f' (did you mean "{close[0]}"?)' if close else ""
            key = next(part for part in reversed(path) if isinstance(part, str))
            self._fail(path, f'"{key}" has {value!r}', f"it must be one of {', '.join(known)}{hint}")
        return value

    def _filled(self, name, shape):
        """`[name]` as the dataclass `shape`; every value has the type of its default."""
        table = self._section(name)
        defaults = shape()
        self._only(table, [item.name for item in fields(shape)], (name,))
        return replace(
            defaults, **{key: self._typed(table, key, type(getattr(defaults, key)), (name,)) for key in table}
        )

    def _features(self):
        features = self._filled("features", Features)
        self._one_of(features.backward, BACKWARD, ("features", "backward"))
        return features

    def _fence(self):
        fence = self._filled("fence", Fence)
        self._one_of(fence.form, tuple(FORMS), ("fence", "form"))
        if not 0 <= fence.overhead_budget <= 1:
            problem = f'"overhead_budget" is {fence.overhead_budget}'
            self._fail(
                ("fence", "overhead_budget"), problem, "it is a share of a pass, 0 to 1: 0.005 is half a percent"
            )
        for item in fields(Fence):
            value = getattr(fence, item.name)
            if isinstance(value, int) and not 0 <= value < 1 << 32:
                self._fail(("fence", item.name), f'"{item.name}" is {value}', "it must be 0 to 4294967295")
        return fence

    def _preset(self, name, index):
        self._one_of(name, preset_names(), ("presets", index))
        return preset(name)

    def _probe(self, table, index):
        path = ("probes", index)
        if not isinstance(table, dict):
            self._fail(("probes",), "a probe is not a table", "write [[probes]]")
        self._only(table, _PROBE_KEYS, path)
        for key in table:
            self._typed(table, key, int if key.startswith("line_") else str, path)
        targets = [key for key in _TARGETS if key in table]
        if len(targets) != 1:
            named = " and ".join(targets) or "none"
            self._fail(path, f"a probe has one target, this one has {named}", f"give one of {', '.join(_TARGETS)}")
        self._check_target(table, targets[0], path)
        phase = self._name(table, "phase", path, MAX_NAME_BYTES)
        if not phase:
            self._fail(path, "a probe without a phase", 'add phase = "…"')
        kind = table.get("kind") or kind_of(phase)
        self._one_of(kind, tuple(KINDS), (*path, "kind"))
        if "steps" in table:
            self._one_of(table["steps"], tuple(STEP_FACTS), (*path, "steps"))
            if targets != ["function"]:
                self._fail((*path, "steps"), '"steps" belongs to a function', "give function instead")
        where = f"{self._file}:{self._lines.of(path)}"
        rest = {key: table[key] for key in (*_TARGETS, "line_start", "line_end", "steps") if key in table}
        op = self._name(table, "op", path, MAX_OP_BYTES) or (phase if kind == "comm" else None)
        backward = self._name(table, "backward", path, MAX_NAME_BYTES) or backward_of(phase)
        return Probe(phase=phase, kind=kind, op=op, backward=backward, where=where, **rest)

    def _check_target(self, table, target, path):
        if target == "function" and table["function"].count(":") != 1:
            self._fail((*path, "function"), f'"function" is {table["function"]!r}', 'write "package.module:name"')
        start, end = table.get("line_start", 0), table.get("line_end", 0)
        if target != "file" and (start or end):
            self._fail(path, "line_start and line_end belong to a file", "give file instead")
        if target == "file" and not 1 <= start <= end:
            self._fail(
                path, f"lines {start} to {end} are no range", "give line_start and line_end, the first line is 1"
            )

    def _name(self, table, key, path, limit):
        value = table.get(key, "")
        if len(value.encode()) > limit:
            self._fail((*path, key), f'"{key}" is longer than {limit} bytes', "shorten it")
        return value


def backward_of(phase):
    """The phase of the backward pass through what is `phase` in the forward pass."""
    return "backward" if phase == "forward" else phase[: MAX_NAME_BYTES - len(_BACKWARD_SUFFIX)] + _BACKWARD_SUFFIX
