"""The configuration of a run, read from YAML files and the command line and written as YAML.

Unknown keys and wrong types are refused by name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError

_SIMILARITY = 0.75  # least similarity of a misspelt key's last word, in [0, 1]


def load_config(paths: Sequence[Path], overrides: Sequence[str] = ()) -> TrainConfig:
    """Merge YAML files and ``key=value`` overrides onto the defaults; later ones win.

    The name of a shipped file is enough as a path.

    Raises:
        ConfigError: A file cannot be read, a key does not exist, a value has the wrong type or is
            out of range, or a required value is missing. The message names the key.
    """
    try:
        merged = OmegaConf.merge(
            OmegaConf.structured(TrainConfig),
            *(OmegaConf.load(_find(path)) for path in paths),
            OmegaConf.from_dotlist(list(overrides)),
        )
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise ConfigError(f"{', '.join(missing)}: must be set in a file or as KEY=VALUE")
        config = OmegaConf.to_object(merged)
    except ConfigKeyError as error:
        key = str(error.full_key or error.key)
        near = _nearest_keys(key)
        hint = f"; the nearest: {', '.join(near)}" if near else ""
        raise ConfigError(f"{key}: there is no such key{hint}") from error
    except OmegaConfBaseException as error:
        said = str(error.msg or error).splitlines()[0]  # without the key and the types
        raise ConfigError(f"{error.full_key or 'configuration'}: {said}") from error
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from error
    except ConfigError:
        raise
    except Exception as error:  # errors of the YAML parser
        raise ConfigError(f"configuration cannot be read: {error}") from error
    assert isinstance(config, TrainConfig)
    return config


def dump_config(config: TrainConfig) -> str:
    """Return the whole configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def as_plain(config: TrainConfig) -> dict[str, Any]:
    """Return the whole configuration as dictionaries, lists, strings and numbers."""
    plain = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _find(path: Path) -> Path:
    shipped = sorted(Path(__file__).parent.glob("*.yaml"))
    if path.exists():
        return path
    for file in shipped:
        if path.name == str(path) and path.stem == file.stem:
            return file
    names = ", ".join(file.name for file in shipped)
    raise ConfigError(f"{path}: no such file, and not one of the shipped ones: {names}")


def _nearest_keys(key: str) -> list[str]:
    """Return at most three existing keys, the nearest first.

    A key is near by its last word (``epochs``: ``optim.epochs``) or as a whole.
    """
    known = _keys(TrainConfig)
    last = {name.rpartition(".")[2]: name for name in reversed(known)}
    word = key.rpartition(".")[2]
    near = [last[found] for found in difflib.get_close_matches(word, last, 1, _SIMILARITY)]
    near += difflib.get_close_matches(re.sub(r"\[\d+\]", "", key), known, 2)
    return list(dict.fromkeys(near))


def _keys(part: type) -> list[str]:
    """Return the dotted names of all keys; those of a list's items follow the list's name."""
    names = []
    for name, kind in get_type_hints(part).items():
        inner = next((one for one in (kind, *get_args(kind)) if is_dataclass(one)), None)
        names.append(name)
        if isinstance(inner, type):
            names += [f"{name}.{key}" for key in _keys(inner)]
    return names
