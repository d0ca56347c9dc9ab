"""Mistakes of a newcomer at the command line: each error names the value and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.verbs import invoke


@pytest.mark.parametrize(
    ("words", "value", "remedy"),
    [
        (("compile", "{}", "-o", "a.so"), "not a regular file but a folder", "Name the file in it"),
        (("compile", "{}/small.onnx", "-o", "{}"), "must end in .so", "Write {}/model.so"),
        (("compile", "{}/small.onnx", "-o", "{}/a.dll"), "a.dll", "Write {}/a.so"),
        (("explain", "{}/small.onnx", "--shape", "x:1x3x21x20"), "names ['x']", "Name one of"),
        (("explain", "{}/small.onnx", "--shape", "input:1x3"), "has rank 2", "Give a size for"),
        (("explain", "{}/small.onnx", "--error-budget", "big"), "got 'big'", "Expected a number"),
        (("explain", "{}/small.onnx", "--error-budget", "-1"), "got '-1'", "Expected a number"),
        (("explain", "{}/small.onnx", "--override", "gone.json"), "gone.json", "Check the path"),
        (("explain", "{}/small.onnx", "--override", "{}/cut.json"), "cut.json", "Correct the file"),
        (("explain", "{}/small.onnx", "--outputs", "stem_relu"), "is a node", "outputs are ['a']"),
        (("check", "{}/old.pth"), "old.pth", "torch.onnx.export"),
        (("check", "{}/net.safetensors"), "net.safetensors", "torch.onnx.export"),
        (("tune", "{}/small.so"), "small.so", "name the ONNX file"),
    ],
)
def test_an_error_says_what_to_do(
    words: tuple[str, ...], value: str, remedy: str, folder: Path
) -> None:
    (folder / "cut.json").write_text('{"conv1": ')
    (folder / "old.pth").write_bytes(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")
    (folder / "net.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0" + b'{"w":{}}')
    (folder / "small.so").write_bytes(b"\x7fELF\x02\x01\x01")
    result = invoke(*(word.format(folder) for word in words))
    assert result.exit_code in (1, 2)
    assert value in result.stderr and remedy.format(folder) in result.stderr
