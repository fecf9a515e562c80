"""AutoRound with the real library, each time in a process of its own, as its import changes transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from unit.quantizers.made import PROMPT, Made, divergence

from pipeline import checkpoint
from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.errors import UserError
from pipeline.model_shape import ModelShape
from pipeline.quantizers import Quantized, auto_round

WINDOW = 32
SAMPLES = [[(7 * number + step * step) % 300 + 3 for step in range(50)] for number in range(10)]
CALIBRATION = {"set": "plain", "samples": 10, "max_tokens": 50}
SETTINGS = {
    "sym": False,
    "iters": 20,
    "window_tokens": WINDOW,
    "skip_modules": ["model.layers.1.mlp.down_proj"],
    "calibration": CALIBRATION,
}
PROGRAM = """
import json, sys
from pathlib import Path
from pipeline.quantizers import QuantizeJob, auto_round
base, out, settings, samples = map(json.loads, sys.argv[1:])
job = QuantizeJob(Path(base), Path(out), auto_round.Settings(**settings), samples, "cpu", "bfloat16", 0)
print(json.dumps(list(auto_round.quantize(job).modules)))
"""
MODEL = ModelShape("llama", "LlamaForCausalLM", (Linear("model.layers.0.mlp.down_proj", 576, 576),), None, 9)


def run(base: Path, out: Path) -> Made:
    if find_spec("auto_round") is None:
        pytest.skip("auto-round is not installed")
    out.mkdir()
    arguments = [json.dumps(value) for value in (str(base), str(out), SETTINGS, SAMPLES)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return Made(out, Quantized(json.loads(done.stdout.strip().splitlines()[-1])))


@pytest.fixture(scope="module")
def made(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return run(base, tmp_path_factory.mktemp("auto_round") / "first")


def test_the_layers_not_skipped_are_quantized_and_all_else_is_the_base_s(made: Made, base: Path) -> None:
    linears = {linear.name for linear in checkpoint.linears(base)}
    assert set(made.done.modules) == linears - set(SETTINGS["skip_modules"])
    before, after = Made(base, made.done).tensors(), made.tensors()
    left = {name for name in before if name.removesuffix(".weight") not in made.done.modules}
    assert left == before.keys() & after.keys()
    assert all(torch.equal(before[name], after[name]) for name in left)
    assert not any(name.startswith("lm_head") for name in after)
    assert not any(path.is_dir() for path in made.folder.iterdir())
    assert checkpoint.config(made.folder)["dtype"] == "float16"


def test_it_loads_with_the_kernels_of_the_format_and_says_nearly_what_the_base_says(made: Made, base: Path) -> None:
    session = made.session()
    assert session.info().kernels == {"Linear": 1, "TorchAtenLinear": 13}
    assert len(session.generate([PROMPT], 4)[0].token_ids) > 0
    exact = engine.load(base, EngineOptions("cpu", "bfloat16", 2)).next_token_logits(PROMPT)
    shuffled = exact[:, ::-1].copy()
    assert divergence(exact, session.next_token_logits(PROMPT)) < divergence(exact, shuffled) / 4


def test_the_same_inputs_make_the_same_bytes(made: Made, base: Path, tmp_path: Path) -> None:
    assert run(base, tmp_path / "again").hashes() == made.hashes()


def test_windows_are_cut_from_all_samples_joined() -> None:
    assert auto_round.cut([[1, 2, 3], [4, 5], [6, 7]], 3) == [[1, 2, 3], [4, 5, 6]]
    assert auto_round.cut([[1, 2], [3]], 3) == [[1, 2, 3]]
    with pytest.raises(UserError, match="window_tokens is 4, but the calibration samples have only 3 tokens"):
        auto_round.cut([[1, 2], [3]], 4)


def test_settings_that_do_not_fit_are_told_before_any_work() -> None:
    def settings(**changes: object) -> auto_round.Settings:
        return auto_round.Settings.model_validate({"calibration": CalibrationSettings(**CALIBRATION), **changes})

    assert auto_round.check(settings(), MODEL) == []
    found = auto_round.check(settings(window_tokens=501, group_size=128, skip_modules=["up_proj"]), MODEL)
    assert [problem.split(" ")[0] for problem in found] == ["skip_modules:", "group_size", "window_tokens"]
    [problem] = auto_round.check(settings(skip_modules=["down_proj"]), MODEL)
    assert problem == "skip_modules: nothing is left to quantize; take some out"
    short = replace(MODEL, context_length=255)
    assert auto_round.check(settings(), short) == ["window_tokens 256: exceeds the model's context of 255"]
    assert auto_round.check(settings(window_tokens=255), short) == []
    assert settings(window_tokens=255).tokens_needed(short)[0] == 255
    assert settings().kernel("cuda", "bfloat16").name == "MarlinLinear"
