"""llama.cpp itself, in its own environment, on tiny models; what it computes is compared with transformers here.

Skipped where that environment is not installed. QUANTGATE_TEST_TOOLCHAINS=1 makes it, minutes of compiling included.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest
import toolchain_side
from llama_cpp_project import Made, make, project_of

from pipeline import checkpoint, store
from pipeline.engines import EngineOptions, Question, Session, transformers
from pipeline.engines import llama_cpp as engine

pytestmark = pytest.mark.e2e

LAYERS = 2
LINEARS = 7 * LAYERS
TOKENS = [5, 99, 300, 17, 255, 64, 128, 400, 33, 7, 211, 350, 12, 80, 90, 450]
PROMPTS = [TOKENS[:5], TOKENS[3:12], TOKENS[::-1], TOKENS[:3]]
QUESTIONS = [
    Question(TOKENS[:6], [[10], [11, 12, 13], [14, 15]]),
    Question(TOKENS[:9], [[400, 3], [7]]),
]
ROPE = {
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    },
    "linear": {"rope_type": "linear", "rope_theta": 20000.0, "factor": 2.0},
}
SHAPE = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}


@pytest.fixture(scope="module")
def python() -> Path:
    return toolchain_side.interpreter(engine.TOOLCHAIN)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    return project_of(tiny_checkpoint, tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def floats(python: Path, project: Path) -> Made:
    return make(python, project, type="F32")


@pytest.fixture(scope="module")
def theirs(project: Path) -> Session:
    return transformers.load(project / store.BASE, EngineOptions("cpu", "float32", 1))


# --- artifacts -------------------------------------------------------------------------------------------------


def test_the_artifact_is_a_complete_folder(python: Path, project: Path) -> None:
    made = make(python, project, type="Q8_0")
    assert {path.name for path in made.folder.iterdir()} >= {"model.gguf", "tensor_types.json", "tokenizer.json"}
    assert checkpoint.config(made.folder) == checkpoint.config(project / store.BASE)
    assert (made.manifest.format, made.manifest.context_length) == ("gguf", 1024)
    assert made.manifest.weight_bytes == (made.folder / "model.gguf").stat().st_size
    assert made.manifest.packages.keys() == {"llama-cpp-python", "gguf"}
    assert made.manifest.toolchain == engine.TOOLCHAIN
    assert sorted(made.record.quantized_modules) == sorted(m.name for m in checkpoint.linears(project / store.BASE))
    assert len(made.record.quantized_modules) == LINEARS
    assert made.record.unquantized_modules == []
    # 34 bytes for 32 weights, and metadata.
    assert 8.5 < made.record.bits_per_weight < 12


def test_rows_that_k_quants_do_not_fit_are_recorded_as_what_they_are(python: Path, project: Path) -> None:
    """The tiny model's rows have 128 and, of down_proj, 256 weights."""
    types = make(python, project, type="Q4_K_M").types()
    assert types["blk.0.attn_q.weight"] == "Q5_0"
    assert types["blk.0.ffn_down.weight"] in ("Q4_K", "Q6_K")
    assert types["blk.0.attn_norm.weight"] == "F32"


def test_settings_reach_llama_cpp(python: Path, project: Path) -> None:
    types = make(python, project, type="Q4_0", token_embedding_type="Q5_1", pure=True, tokenizer="none").types()
    assert types["token_embd.weight"] == "Q5_1"
    assert {kind for name, kind in types.items() if name.endswith("_down.weight")} == {"Q4_0"}


def test_equal_inputs_give_equal_artifacts(python: Path, project: Path) -> None:
    one, other = (make(python, project, type="Q4_K_M") for _ in range(2))
    assert one.record.artifact_sha256 == other.record.artifact_sha256


def test_a_tokenizer_that_llama_cpp_reads_otherwise_is_refused(
    python: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    """llama.cpp knows nothing of this normalizer."""
    project = project_of(tiny_checkpoint, tmp_path)
    path = project / store.BASE / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["normalizer"] = {"type": "Prepend", "prepend": "x"}
    path.write_text(json.dumps(tokenizer))
    made = make(python, project, type="Q8_0")
    [problem] = made.answer["user_error"]
    assert "sample texts into other tokens than the base's tokenizer" in problem
    made = make(python, project, type="Q8_0", tokenizer="none")
    assert "record" in made.answer


# --- the engine ------------------------------------------------------------------------------------------------


def test_logits_are_those_of_transformers(floats: Made, theirs: Session) -> None:
    [ours] = floats.ask(("next_token_logits", TOKENS))
    assert ours.shape == (len(TOKENS), 512)
    assert ours.dtype == numpy.float32
    wanted = theirs.next_token_logits(TOKENS)
    assert numpy.abs(ours - wanted).max() < 1e-2 * numpy.abs(wanted).max()
    assert (ours.argmax(-1) == wanted.argmax(-1)).all()


def test_logits_of_more_tokens_than_are_asked_for_at_once(floats: Made, theirs: Session) -> None:
    long = (TOKENS * 20)[: engine.OUTPUTS * 2 + 30]
    [ours] = floats.ask(("next_token_logits", long))
    wanted = theirs.next_token_logits(long)
    assert ours.shape == wanted.shape
    assert (ours.argmax(-1) == wanted.argmax(-1)).mean() > 0.98


@pytest.mark.parametrize("shared", [0, 3])
def test_answers_are_those_of_transformers(shared: int, floats: Made, theirs: Session) -> None:
    prompts = [TOKENS[:shared] + prompt for prompt in PROMPTS]
    [first, again] = floats.ask(*[("generate", prompts, 12, TOKENS[:shared])] * 2)
    wanted = theirs.generate(prompts, 12)
    assert [done["token_ids"] for done in first] == [done.token_ids for done in wanted]
    assert [done["finish_reason"] for done in first] == [done.finish_reason.value for done in wanted]
    assert again == first


def test_a_row_ends_at_the_end_token_and_the_others_go_on(floats: Made, theirs: Session) -> None:
    [plain] = floats.ask(("generate", PROMPTS, 12))
    ends = plain[0]["token_ids"][2]
    path = floats.folder / "generation_config.json"
    before = path.read_text()
    try:
        path.write_text(json.dumps({"eos_token_id": [ends]}))
        [cut] = floats.ask(("generate", PROMPTS, 12))
    finally:
        path.write_text(before)
    for full, done in zip(plain, cut, strict=True):
        tokens = full["token_ids"]
        wanted = tokens[: tokens.index(ends)] if ends in tokens else tokens
        assert done["token_ids"] == wanted
        assert done["finish_reason"] == ("stop" if ends in tokens else "length")
    assert cut[0]["finish_reason"] == "stop"


@pytest.mark.parametrize("shared", [0, 4])
def test_logprobs_of_choices_are_those_of_transformers(shared: int, floats: Made, theirs: Session) -> None:
    [ours, again] = floats.ask(*[("choice_logprobs", QUESTIONS, TOKENS[:shared])] * 2)
    for found, wanted in zip(ours, theirs.choice_logprobs(QUESTIONS), strict=True):
        assert found == pytest.approx(wanted, rel=2e-3, abs=2e-2)
    assert again == ours


def test_what_was_asked_before_changes_no_answer(floats: Made) -> None:
    alone = floats.ask(("generate", PROMPTS, 8))[0]
    *_, after = floats.ask(
        ("choice_logprobs", QUESTIONS, TOKENS[:4]),
        ("answer", [TOKENS, TOKENS[::-1]], 5),
        ("next_token_logits", TOKENS),
        ("generate", [[*TOKENS[:4], 9, 9]], 3, TOKENS[:4]),
        ("generate", PROMPTS, 8),
    )
    assert after == alone


def test_pinned_answers_have_so_many_tokens_with_rising_times(floats: Made) -> None:
    one, two, prefill = floats.ask(
        ("answer", [TOKENS], 7), ("answer", [TOKENS, TOKENS[::-1]], 3), ("prefill", [TOKENS, TOKENS[::-1]])
    )
    for reading, tokens in ((one, 7), (two, 3)):
        assert len(reading["token_s"]) == tokens
        assert all(earlier < later for earlier, later in zip(reading["token_s"], reading["token_s"][1:], strict=False))
        assert reading["cpu_s"][0] <= reading["cpu_s"][1]
        assert reading["device_s"] is None
        assert reading["prefill_s"] is None
    assert prefill > 0


def test_one_token_is_an_answer(floats: Made) -> None:
    [reading] = floats.ask(("answer", [TOKENS], 1))
    assert len(reading["token_s"]) == 1
    assert reading["cpu_s"][0] == reading["cpu_s"][1]


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2), ("bfloat16", 2)])
def test_the_cache_is_as_large_as_the_config_says(dtype: str, size: int, floats: Made) -> None:
    [cache] = floats.ask(("kv_cache", TOKENS), dtype=dtype)
    assert cache == {
        "layers": LAYERS,
        "kv_heads": 2,
        "head_dim": 32,
        "bytes_per_element": size,
        "measured_tokens": len(TOKENS),
        "measured_bytes": 2 * LAYERS * 2 * 32 * size * len(TOKENS),
    }


def test_the_session_tells_of_itself(floats: Made) -> None:
    before, answered, after, weights, decode, misplaced, broken = floats.ask(
        ("info",), ("answer", [TOKENS], 2), ("info",), ("weight_bytes",), ("decode_weight_bytes",), ("misplaced",),
        ("broken_weights",),
    )  # fmt: skip
    assert before == after
    assert before["name"] == "llama_cpp"
    assert before["kernels"] == {"llama.cpp F32": LINEARS}
    assert before["attention"] == "llama.cpp flash attention, keys and values in float32"
    assert before["packages"].keys() == {"llama-cpp-python", "gguf", "llama.cpp"}
    assert (before["device"], before["device_name"], before["compute_dtype"], before["threads"]) == (
        "cpu",
        "CPU",
        "float32",
        1,
    )
    assert len(answered["token_s"]) == 2
    # The embedding is tied: every weight is read.
    assert weights == decode == 4 * floats.manifest.parameters
    assert misplaced == []
    assert broken == {}


def test_faulty_questions_are_refused(floats: Made) -> None:
    told = floats.ask(
        ("answer", [[1, 2], [1]], 3),
        ("prefill", [[1, 2], [1]]),
        ("generate", [[5, 6]], 3, [6]),
        ("choice_logprobs", [Question([1], [])]),
        ("answer", [[1]] * 300, 1),
    )
    words = [answer["raised"] for answer in told]
    assert (
        words[:2] == ["ValueError: prompts that are answered together must be equally long; their tokens: [1, 2]"] * 2
    )
    assert words[2] == "ValueError: prompt 0 does not begin with the 1 shared tokens"
    assert words[3] == "ValueError: prompt 0 has no choices"
    assert words[4] == "RuntimeError: llama.cpp computes at most 256 streams together, not 300"


def test_more_prompts_than_streams_are_answered_in_groups(floats: Made) -> None:
    many, few = floats.ask(("generate", [[5, 6]] * 300, 2), ("generate", [[5, 6]], 2))
    assert many == few * 300


# --- other models ----------------------------------------------------------------------------------------------


def other_model(kind: str) -> Any:
    import transformers as library

    torch_config: dict[str, Any] = {
        "qwen2": lambda: library.Qwen2Config(**SHAPE, tie_word_embeddings=False),
        "qwen3": lambda: library.Qwen3Config(**SHAPE, head_dim=32, tie_word_embeddings=True),
        "mistral": lambda: library.MistralConfig(**SHAPE, head_dim=16, sliding_window=None),
        "llama-biased": lambda: library.LlamaConfig(**SHAPE, attention_bias=True),
        "llama-llama3": lambda: library.LlamaConfig(**SHAPE, rope_parameters=ROPE["llama3"]),
        "llama-linear": lambda: library.LlamaConfig(**SHAPE, rope_parameters=ROPE["linear"]),
    }
    return library.AutoModelForCausalLM.from_config(torch_config[kind]())


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "mistral", "llama-biased", "llama-llama3", "llama-linear"])
def test_other_architectures_and_rotations_are_those_of_transformers(
    kind: str, python: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    import torch

    torch.manual_seed(1)
    model = other_model(kind)
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            torch.nn.init.normal_(parameter, std=0.2)
    saved = tmp_path / "saved"
    model.to(torch.float16).save_pretrained(saved)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tiny_checkpoint / name, saved / name)
    project = project_of(saved, tmp_path)
    [ours] = make(python, project, type="F32").ask(("next_token_logits", TOKENS * 4))
    wanted = transformers.load(project / store.BASE, EngineOptions("cpu", "float32", 1)).next_token_logits(TOKENS * 4)
    assert numpy.abs(ours - wanted).max() < 1e-2 * numpy.abs(wanted).max()
    assert (ours.argmax(-1) == wanted.argmax(-1)).mean() > 0.98
