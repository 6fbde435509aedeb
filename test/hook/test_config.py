import pytest
from picket_hook import config
from picket_hook.toml_file import ConfigError

PROBE = '[[probes]]\nmodule = "*.A"\nphase = "attention"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROBE + "[[probes]]\nmodul = 1\n", 'f.toml:5: unknown key "modul"; did you mean "module"?'),
        ("[features]\n\noptimizr = true\n", 'f.toml:3: unknown key "optimizr"; did you mean "optimizer"?'),
        ("colour = 1\n", 'f.toml:1: unknown key "colour"; known here: presets, job, features, fence, probes'),
        ("[job]\nrun = 1\n", 'f.toml:2: "run" is 1; it must be a text'),
        ("a = = 1\n", "f.toml:1: not TOML (Invalid value); see https://toml.io"),
        ('presets = ["lama"]\n', 'did you mean "llama"?'),
        ('[features]\nbackward = "stp"\n', "f.toml:2: \"backward\" has 'stp'; it must be one of off, step, modules"),
        ("[[probes]]\nphase = 'x'\n", "f.toml:1: a probe has one target, this one has none"),
        ("[[probes]]\nmodule = 'a'\nfunction = 'b:c'\nphase = 'x'\n", "this one has module and function"),
        ("[[probes]]\nmodule = 'a'\n", "f.toml:1: a probe without a phase"),
        ("[[probes]]\nfunction = 'a.b'\nphase = 'x'\n", "f.toml:2: \"function\" is 'a.b'; write"),
        ("[[probes]]\nfile = 'a'\nline_start = 3\nline_end = 2\nphase = 'x'\n", "lines 3 to 2 are no range"),
        ("[[probes]]\nmodule = 'a'\nline_start = 3\nphase = 'x'\n", "belong to a file"),
        ("[[probes]]\nmodule = 'a'\nphase = 'x'\nkind = 'cpu'\n", "f.toml:4: \"kind\" has 'cpu'"),
        ("[[probes]]\nfunction = 'a:b'\nphase = 'step'\nsteps = 'vlm'\n", 'did you mean "vllm"?'),
        (f"[[probes]]\nmodule = 'a'\nphase = '{'x' * 40}'\n", 'f.toml:3: "phase" is longer than 39 bytes'),
        ("[fence]\nfence_capacity = -1\n", 'f.toml:2: "fence_capacity" is -1'),
        ("probes = 3\n", 'f.toml:1: "probes" is 3; it must be a list'),
        ("job = 3\n", 'f.toml:1: "job" is not a table; write [job]'),
    ],
)
def test_a_fault_names_file_line_key_and_remedy(text, message):
    with pytest.raises(ConfigError) as raised:
        config.from_text(text, "f.toml")
    assert message in str(raised.value)
    assert str(raised.value).startswith("f.toml:")


def test_kinds_and_names_follow_the_vocabulary():
    probes = config.from_text(
        PROBE + "[[probes]]\nfunction = 'a:b'\nphase = 'all_reduce'\n[[probes]]\nfunction = 'a:c'\nphase = 'dataload'\n"
        "[[probes]]\nmodule = 'c'\nphase = 'forward'\n"
    ).probes
    assert [probe.kind for probe in probes] == ["compute", "comm", "host", "compute"]
    assert [probe.op for probe in probes] == [None, "all_reduce", None, None]
    assert [probe.backward for probe in probes][0::3] == ["attention_backward", "backward"]


def test_own_probes_come_before_those_of_presets():
    probes = config.from_text('presets = ["llama"]\n' + PROBE).probes
    assert probes[0].module == "*.A"
    assert "*.LlamaMLP" in [probe.module for probe in probes]


def test_install_raises_for_a_wrong_file(tmp_path):
    import picket_hook

    file = tmp_path / "picket.toml"
    file.write_text("[feature]\n")
    with pytest.raises(ConfigError, match=r'picket.toml:1: unknown key "feature"; did you mean "features"'):
        picket_hook.install(file)
    assert picket_hook.status() == {"enabled": False}


def test_the_overhead_budget_is_a_share():
    assert config.from_text("").fence.overhead_budget == 0.005
    assert config.from_text("[fence]\noverhead_budget = 0").fence.overhead_budget == 0
    with pytest.raises(config.ConfigError, match="overhead_budget.*0 to 1"):
        config.from_text("[fence]\noverhead_budget = 2.5")
    with pytest.raises(config.ConfigError, match="must be a number"):
        config.from_text('[fence]\noverhead_budget = "0.5 %"')


def test_status_tells_the_plan(hook):
    import picket_hook

    hook.install()
    with picket_hook.phase("mlp"):
        pass
    assert picket_hook.status()["overhead"] == "no phase has been captured yet"
