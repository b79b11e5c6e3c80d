"""What is written as protobuf's text format is read back by protobuf itself."""

from __future__ import annotations

from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from trivet.serve.triton.config_text import Message, Word, to_parameters, to_text


def parse(text: str) -> model_config_pb2.ModelConfig:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


@given(st.text(st.characters(codec="ascii"), max_size=40), st.text("ab\"\\\n'{}#", max_size=200))
def test_any_text_comes_back(name: str, value: str) -> None:
    message: Message = {
        "name": name,
        "parameters": to_parameters({"key": value, "other": "x" * 120}),
    }
    config = parse(to_text(message))
    assert config.name == name
    found = {key: each.string_value for key, each in config.parameters.items()}
    assert found == {"key": value, "other": "x" * 120}


def test_every_kind_of_value_comes_back() -> None:
    message: Message = {
        "max_batch_size": 0,
        "input": [
            {"name": "one", "data_type": Word("TYPE_INT64"), "dims": [-1, 2], "optional": True},
            {"name": "two", "data_type": Word("TYPE_STRING"), "dims": []},
        ],
        "version_policy": {"specific": {"versions": [1, 3]}},
        "optimization": {"eager_batching": False},
    }
    config = parse(to_text(message))
    first, second = config.input
    assert (first.name, first.optional, list(first.dims)) == ("one", True, [-1, 2])
    assert first.data_type == model_config_pb2.TYPE_INT64
    assert (second.name, second.optional, list(second.dims)) == ("two", False, [])
    assert list(config.version_policy.specific.versions) == [1, 3]
    assert config.HasField("optimization") and not config.optimization.eager_batching
