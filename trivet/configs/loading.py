"""The configuration of a run, read from YAML files and the command line and written as YAML.

Unknown keys and wrong types are refused by name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError
from trivet.settings import described_fields

T = TypeVar("T")
_SIMILARITY = 0.75  # least similarity of a misspelt key's last word, in [0, 1]


def load_config(paths: Sequence[Path], overrides: Sequence[str] = ()) -> TrainConfig:
    """Merge YAML files and ``key=value`` overrides onto the defaults; later ones win.

    The name of a shipped file is enough as a path.

    Raises:
        ConfigError: A file cannot be read, a key does not exist, a value has the wrong type or is
            out of range, or a required value is missing. The message names the key.
    """
    return merge(TrainConfig, [find(path) for path in paths], overrides)


def merge(kind: type[T], files: Iterable[Path], overrides: Sequence[str]) -> T:
    """Merge YAML files and ``key=value`` overrides onto the defaults of a dataclass.

    Raises:
        ConfigError: As of `load_config`.
    """
    try:
        merged = OmegaConf.merge(
            OmegaConf.structured(kind),
            *map(OmegaConf.load, files),
            OmegaConf.from_dotlist(list(overrides)),
        )
        if missing := sorted(OmegaConf.missing_keys(merged)):
            raise ConfigError(_way_out(missing, merged))
        config = OmegaConf.to_object(merged)
    except ConfigKeyError as error:
        key = str(error.full_key or error.key)
        raise ConfigError(f"{key}: there is no such key; {_keys_instead(kind, key)}") from error
    except OmegaConfBaseException as error:
        reason = str(error.msg or error).splitlines()[0]  # without the key and the types
        raise ConfigError(f"{error.full_key or 'configuration'}: {reason}") from error
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from error
    except ConfigError:
        raise
    except Exception as error:  # errors of the YAML parser
        raise ConfigError(f"configuration cannot be read: {error}") from error
    assert isinstance(config, kind)
    return config


def dump_config(config: TrainConfig) -> str:
    """Return the whole configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def described_keys() -> str:
    """Return all keys as YAML, with their defaults and, as comments, what they mean."""
    return "\n".join(_described(TrainConfig, ""))


def _described(part: type, indent: str) -> list[str]:
    texts = {field.name: field.setting.text for field in described_fields(part)}
    lines = []
    for field, (name, kind) in zip(fields(part), get_type_hints(part).items(), strict=True):
        inner = _section(kind)
        comment = f"  # {texts[name]}" if name in texts else ""
        if inner is not None:
            lines.append(f"{indent}{name}:{comment}")
            section = _described(inner, f"{indent}  ")
            if name in texts:  # a list of sections, shown with one item
                section = [
                    f"{indent}  - {section[0].strip()}",
                    *(f"  {line}" for line in section[1:]),
                ]
            lines += section
            continue
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if isinstance(default, list):
            plain = f"{name}: [{', '.join(default)}]"
        else:
            plain = OmegaConf.to_yaml({name: default}).strip()
        for choices in (
            part_kind for part_kind in (kind, *get_args(kind)) if get_origin(part_kind) is Literal
        ):
            comment += f" ({', '.join(get_args(choices))})"
        lines.append(f"{indent}{plain}{comment}")
    return lines


def _way_out(missing: list[str], merged: Any) -> str:
    """Return what to set, with the weights that the recipe names as its source."""
    way_out = f"{', '.join(missing)}: must be set in a file or as KEY=VALUE"
    if missing == ["encoder.name"]:
        what = merged.encoder.source or "a checkpoint"
        way_out = f"encoder.name: must be set: add encoder.name=DIR, a folder with {what}"
    return way_out


def find(path: Path, folder: str = ".") -> Path:
    """Return a file, by its path or by the name of one shipped next to this module."""
    shipped = sorted((Path(__file__).parent / folder).glob("*.yaml"))
    if path.exists():
        return path
    for file in shipped:
        if str(path) in (file.name, file.stem):
            return file
    names = ", ".join(file.name for file in shipped)
    raise ConfigError(f"{path}: no such file, and not one of the shipped ones: {names}")


def _keys_instead(whole: type, key: str) -> str:
    """Return the key that was meant, if one is like it, and all keys of the section."""
    names = re.sub(r"\[\d*\]", "", key).split(".")
    section = whole
    path: list[str] = []
    for name in names[:-1]:
        inner = _section(get_type_hints(section).get(name))
        if inner is None:
            break
        section, path = inner, [*path, name]
    unknown, prefix = names[len(path)], "".join(f"{name}." for name in path)
    keys = list(get_type_hints(section))
    # Suggest first the key of the same name in another section, such as epochs.
    last = {name.rpartition(".")[2]: name for name in reversed(_keys(whole))}
    near = [prefix + name for name in difflib.get_close_matches(unknown, keys, 1, _SIMILARITY)]
    near += [last[name] for name in difflib.get_close_matches(names[-1], last, 1, _SIMILARITY)]
    meant = f"did you mean {near[0]}? " if near else ""
    if near and not path and "." in near[0]:
        return meant + _keys_instead(whole, f"{near[0].rpartition('.')[0]}.")
    where = f"{'.'.join(path)} has" if path else "the keys are"
    return f"{meant}{where} {', '.join(keys)}"


def _section(kind: Any) -> type | None:
    """Return the class of a section, also of a list's items; ``None`` of a plain value."""
    section = next(
        (part_kind for part_kind in (kind, *get_args(kind)) if is_dataclass(part_kind)), None
    )
    return section if isinstance(section, type) else None


def _keys(part: type) -> list[str]:
    """Return the dotted names of all keys; those of a list's items follow the list's name."""
    names = []
    for name, kind in get_type_hints(part).items():
        inner = _section(kind)
        names.append(name)
        if inner is not None:
            names += [f"{name}.{key}" for key in _keys(inner)]
    return names
