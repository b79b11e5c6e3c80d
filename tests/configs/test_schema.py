"""The configuration: every shipped file loads, every mistake is refused by the name of its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trivet.configs import schema
from trivet.configs.loading import dump_config, load_config
from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError

SHIPPED = sorted(Path(schema.__file__).parent.glob("*.yaml"))  # those of ablations are grids
GIVEN = ["encoder.name=somewhere", "run.folder=run"]
SOURCES = ["data.train=[{spec: 'jsonl:a'}]", "data.dev=[{spec: 'jsonl:a', split: dev}]"]


def loaded(*overrides: str) -> TrainConfig:
    return load_config([], [*GIVEN, *SOURCES, *overrides])


@pytest.mark.parametrize("path", SHIPPED, ids=[path.name for path in SHIPPED])
def test_every_shipped_file_loads_and_begins_with_the_command_that_runs_it(path: Path) -> None:
    config = load_config([path], GIVEN)
    assert config.data.train[0].spec and config.data.dev[0].spec
    # A shipped recipe is a file beside the schema, so its name alone will do.
    assert load_config([Path(path.name)], GIVEN) == config

    header = path.read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    commands = [line for line in header if line.startswith("#") and "trivet train" in line]
    assert commands and all(path.name in command for command in commands)
    assert any("GPU" in line for line in header), "a recipe names its GPU"


def test_later_files_and_the_command_line_win(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("optim: {epochs: 2, encoder_lr: 1e-5, head_lr: 1.0e-4}", encoding="utf-8")
    second.write_text("optim: {epochs: 4}\nrun: {name: second}", encoding="utf-8")
    config = load_config([first, second], [*GIVEN, *SOURCES, "optim.head_lr=3e-4"])
    assert (config.optim.epochs, config.run.name, config.window.size) == (4, "second", 512)
    # 1e-5 is a number here, whatever plain YAML says.
    assert (config.optim.encoder_lr, config.optim.head_lr) == (1e-5, 3e-4)


def test_a_dumped_configuration_loads_again(tmp_path: Path) -> None:
    config = loaded("encoder.init=nli", "data.thresholds_from=[ragtruth]", "run.precision=bf16")
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config([path]) == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "optim.learning_rate=1",
            r"optim\.learning_rate: there is no such key; optim has encoder_lr, head_lr, ",
        ),
        ("zzz=1", r"zzz: there is no such key; the keys are encoder, window, data, "),
        ("data.train=none", r"data\.train"),
        ("encoder.trunk=partial", r"encoder\.shared_layers \(None\) must be at least 1"),
        ("optim.head_lr=0", r"optim\.head_lr \(0\) must be above 0"),
        (
            "data.train=[{spec: 'jsonl:a', share: 1}, {spec: 'jsonl:b'}]",
            r"of every source.*none has jsonl:b",
        ),
    ],
)
def test_an_unknown_key_a_wrong_type_and_a_value_out_of_range_are_refused_by_name(
    override: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(override)


def test_what_must_be_given_is_named() -> None:
    with pytest.raises(ConfigError, match=r"data\.dev.*spec.*encoder\.name.*run\.folder.*be set"):
        load_config([])
    with pytest.raises(ConfigError, match=r"^encoder\.name: must be set"):
        load_config([], ["run.folder=run", *SOURCES])
    with pytest.raises(ConfigError, match=r"data\.train\[1\]\.spec: must be set"):
        loaded("data.train=[{spec: 'jsonl:a'}, {split: all}]")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_config([tmp_path / "nowhere.yaml"], GIVEN)
    broken = tmp_path / "broken.yaml"
    broken.write_text("optim: {epochs: ", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config([broken], GIVEN)


def test_sources_are_left_out_by_words_of_their_licences() -> None:
    sources = (
        "data.train=[{spec: 'jsonl:a', share: 0.5, licence: MIT},"
        "{spec: 'jsonl:b', share: 0.25, licence: CC BY-NC-SA 4.0},"
        "{spec: 'jsonl:c', share: 0.25, licence: CC0}]"
    )
    kept = loaded(sources, "data.exclude_licences=[NC, research]").data.train
    assert [source.spec for source in kept] == ["jsonl:a", "jsonl:c"]
    assert [source.share for source in kept] == pytest.approx([2 / 3, 1 / 3])
    with pytest.raises(ConfigError, match=r"data\.exclude_licences .* such that a source"):
        loaded(sources, "data.exclude_licences=[MIT, CC]")


@pytest.mark.parametrize("recipe", ["embedded.yaml", "base.yaml"])
def test_a_recipe_without_its_restricted_texts_names_no_other_owner(recipe: str) -> None:
    words = "data.exclude_licences=[NC, research, academic]"
    clean = load_config([Path(recipe)], [*GIVEN, words])
    licences = [source.licence for source in clean.data.train]
    assert licences and not re.search("MARCO|CNN|BBC|Yelp|NC|research", " ".join(licences))
