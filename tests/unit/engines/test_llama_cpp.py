"""What the llama.cpp engine works out without llama.cpp; tests/e2e/test_llama_cpp.py asks the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from pipeline.engines import _gguf_weights, _llama_cpp_context, _llama_cpp_log, _prompts, llama_cpp
from pipeline.engines._gguf_weights import StoredTensor
from pipeline.engines._llama_cpp_context import Piece, Size

gguf = pytest.importorskip("gguf")

TENSORS = {
    "token_embd.weight": StoredTensor("Q8_0", 1000, 2),
    "blk.0.attn_q.weight": StoredTensor("Q5_0", 100, 2),
    "blk.0.attn_norm.weight": StoredTensor("F32", 10, 1),
    "blk.1.attn_q.weight": StoredTensor("Q5_0", 100, 2),
    "blk.1.ffn_down.weight": StoredTensor("Q6_K", 50, 2),
    "output_norm.weight": StoredTensor("F32", 10, 1),
}


# --- what the file says ----------------------------------------------------------------------------------------


def test_kernels_are_the_types_of_the_blocks_matrices() -> None:
    assert _gguf_weights.kernels(TENSORS) == {"llama.cpp Q5_0": 2, "llama.cpp Q6_K": 1}


def test_a_tied_embedding_is_read_at_each_token_and_an_untied_one_is_not() -> None:
    assert _gguf_weights.decode_bytes(TENSORS) == 1270
    assert _gguf_weights.decode_bytes({**TENSORS, "output.weight": StoredTensor("Q6_K", 500, 2)}) == 770


def file(path: Path, **tensors: Any) -> Path:
    """A GGUF file of these tensors; two-dimensional ones are stored as Q8_0."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, values in tensors.items():
        kind = gguf.GGMLQuantizationType.Q8_0 if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_broken_weights_are_found_in_quantized_tensors(tmp_path: Path) -> None:
    sound = numpy.random.default_rng(0).normal(size=(2000, 32)).astype(numpy.float32)
    late = numpy.zeros_like(sound)
    late[-1, 3] = 1
    infinite = sound.copy()
    infinite[1999, 0] = numpy.inf
    path = file(tmp_path / "some.gguf", a=sound, b=late, c=numpy.zeros_like(sound), d=numpy.zeros(32, numpy.float32))
    assert _gguf_weights.broken(path) == {"c": "nothing but zeros"}
    with numpy.errstate(all="ignore"):
        path = file(tmp_path / "other.gguf", a=infinite, d=numpy.array([numpy.nan] * 32, numpy.float32))
        assert _gguf_weights.broken(path) == {"a": "NaN or infinity", "d": "NaN or infinity"}


def test_stored_tensors_are_read_with_their_size(tmp_path: Path) -> None:
    path = file(tmp_path / "some.gguf", a=numpy.ones((4, 64), numpy.float32), d=numpy.ones(32, numpy.float32))
    # Q8_0: 34 bytes for 32 weights.
    assert _gguf_weights.stored(path) == {"a": StoredTensor("Q8_0", 272, 2), "d": StoredTensor("F32", 128, 1)}


# --- what the log says -----------------------------------------------------------------------------------------


def test_attention_is_as_llama_cpp_last_said() -> None:
    assert _llama_cpp_log.attention(["x: Flash Attention enabled"]) == "llama.cpp flash attention"
    said = ["x: Flash Attention enabled", "x: Flash Attention not supported, set to disabled"]
    assert _llama_cpp_log.attention(said) == "llama.cpp without flash attention"
    assert _llama_cpp_log.attention(["other"]) == "llama.cpp"


def test_only_the_input_embedding_may_stay_on_the_host() -> None:
    mib = 2**20
    said = [
        "load_tensors:   CPU_Mapped model buffer size =    28.69 MiB",
        "load_tensors:        CUDA0 model buffer size =   136.73 MiB",
    ]
    assert _llama_cpp_log.on_host(said, 28 * mib) == []
    assert _llama_cpp_log.on_host(said, 20 * mib) == ["29 MiB in CPU_Mapped"]
    assert _llama_cpp_log.on_host(["x:    CUDA_Host model buffer size =    90.00 MiB"], 28 * mib) != []


def test_lines_that_come_in_pieces_are_put_together(capsys: pytest.CaptureFixture[str]) -> None:
    log = _llama_cpp_log.Log()
    assert log.last_line == "it gave no reason"
    for level, piece in ((2, b"first"), (5, b" line\n\nsecond line\nthi"), (1, b"debug\n"), (5, b"more of it\n")):
        log(level, piece, None)
    assert list(log.lines) == ["first line", "second line"]
    assert capsys.readouterr().out == "first line\nsecond line\n"


# --- batches ---------------------------------------------------------------------------------------------------


def parts(pieces: list[Piece], tokens: int = 100, outputs: int = 100) -> list[list[list[int]]]:
    return [
        [array.tolist() for array in (part.tokens, part.positions, part.sequences, part.outputs)]
        for part in _llama_cpp_context._parts(pieces, tokens, outputs)
    ]


def test_pieces_stand_one_behind_the_other() -> None:
    assert parts([Piece(0, 0, [5, 6, 7]), Piece(3, 8, [9, 10], wanted=2)]) == [
        [[5, 6, 7, 9, 10], [0, 1, 2, 8, 9], [0, 0, 0, 3, 3], [0, 0, 1, 1, 1]]
    ]


def test_parts_hold_no_more_tokens_and_outputs_than_allowed() -> None:
    piece = [Piece(0, 0, list(range(7)), wanted=7)]
    assert [part[0] for part in parts(piece, tokens=3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [part[0] for part in parts(piece, outputs=4)] == [[0, 1, 2, 3], [4, 5, 6]]
    last = [Piece(0, 0, [1, 2, 3]), Piece(1, 0, [4, 5, 6])]
    assert [part[0] for part in parts(last, outputs=1)] == [[1, 2, 3, 4, 5], [6]]
    assert [part[3] for part in parts(last, tokens=2)] == [[0, 0], [1, 0], [0, 1]]


def test_a_context_does_for_what_needs_no_more_of_the_same_kind() -> None:
    beside, shared = Size(2, 300, 2, unified=False), Size(5, 300, 128, unified=True)
    assert beside.holds(Size(2, 200, 2, unified=False))
    assert not beside.holds(Size(2, 301, 2, unified=False))
    assert not beside.holds(Size(1, 200, 1, unified=False))
    assert shared.holds(Size(3, 300, 128, unified=True))
    assert not shared.holds(Size(6, 10, 128, unified=True))
    assert not shared.holds(Size(2, 200, 2, unified=False))


def test_a_new_context_has_room_for_what_the_last_one_had_where_that_is_cheap() -> None:
    assert Size(5, 300, 128, True).grown(Size(2, 400, 128, True)) == Size(5, 400, 128, True)
    # A cache for each of eight streams as long as the one stream's before would be memory for nothing.
    assert Size(1, 8192, 1, False).grown(Size(8, 256, 8, False)) == Size(8, 256, 8, False)


# --- the rest --------------------------------------------------------------------------------------------------


def test_logprobs_are_those_of_a_softmax() -> None:
    logits = numpy.array([[0.0, numpy.log(3.0)], [1000.0, 1000.0]], dtype=numpy.float32)
    assert llama_cpp.logprobs(logits, [1, 0]) == pytest.approx([numpy.log(0.75), numpy.log(0.5)])


@pytest.mark.parametrize(
    ("generation", "config", "wanted"),
    [
        ({"eos_token_id": [2, 7]}, {"eos_token_id": 3}, {2, 7}),
        ({}, {"eos_token_id": 3}, {3}),
        (None, {"eos_token_id": 0}, {0}),
        (None, {}, set()),
    ],
)
def test_end_tokens_are_the_checkpoint_s(
    generation: dict[str, Any] | None, config: dict[str, Any], wanted: set[int], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert llama_cpp.end_tokens(tmp_path) == wanted


@pytest.mark.parametrize("names", [(), ("a.gguf", "b.gguf")])
def test_one_file_is_loaded(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(RuntimeError, match=f"there are {len(names)}"):
        llama_cpp._gguf_file(tmp_path)


def test_prompts_that_do_not_continue_and_choices_that_are_none_are_all_told() -> None:
    with pytest.raises(ValueError, match=r"prompt 0 does not begin .*prompt 1 has no token .*prompt 2 has no choices"):
        _prompts.require_continuing([[1], [5, 6], [5, 6, 7]], [5, 6], [[[1]], [[1]], []])
    with pytest.raises(ValueError, match="prompt 0 has a choice without tokens"):
        _prompts.require_continuing([[1]], [], [[[1], []]])
    _prompts.require_continuing([[5, 6, 7]], [5, 6], [[[1]]])


def test_prompts_answered_together_are_equally_long() -> None:
    assert _prompts.require_equally_long([[1, 2], [3, 4]]) == 2
    with pytest.raises(ValueError, match=r"equally long; their tokens: \[1, 2\]"):
        _prompts.require_equally_long([[1, 2], [3]])
