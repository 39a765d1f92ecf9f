"""N + M files: every operator of the library runs under every machine's rule mapping."""

from __future__ import annotations

from functools import lru_cache

import pytest

import septran
from septran import operators
from septran.errors import SepTranError
from septran.mapping.loader import mapping_names
from septran.runtime.accuracy import compare, error_bounds
from septran.runtime.checks import sample
from septran.runtime.signature import Specialisation
from septran.targets.index_width import index_dtype
from tests.tiers import in_turn

LARGE = {
    "attention": {"B": 1, "H": 2, "G": 1, "M": 1000, "N": 1500, "D": 256},
    "attention_backward": {"B": 1, "H": 2, "G": 1, "M": 1000, "N": 1500, "D": 128},
    "attention_bias": {"B": 1, "H": 2, "G": 2, "M": 1000, "N": 1500, "D": 128},
    "attention_decode": {"B": 1, "H": 32, "G": 8, "N": 8192, "D": 128},
    "attention_lse": {"B": 1, "H": 2, "G": 1, "M": 1000, "N": 1500, "D": 256},
    "attention_varlen": {"T": 1000, "S": 1500, "L": 9, "H": 2, "G": 1, "D": 128},
    "batched_gemm": {"S": 3, "M": 1000, "N": 700, "K": 2000},
    "block_sparse_attention": {"B": 1, "H": 2, "G": 1, "M": 1000, "N": 1500, "D": 128},
    "causal_conv1d": {"B": 2, "C": 4096, "N": 4095, "R": 4},
    "conv2d": {"B": 2, "C": 128, "H": 56, "W": 56, "O": 256, "R": 3, "S": 3},
    "conv2d_backward": {"B": 2, "C": 128, "H": 56, "W": 56, "O": 256, "R": 3, "S": 3},
    "conv2d_nhwc": {"B": 2, "C": 128, "H": 56, "W": 56, "O": 256, "R": 3, "S": 3},
    "cross_entropy": {"T": 4096, "V": 128_256},
    "cross_entropy_backward": {"T": 4096, "V": 128_256},
    "cumsum": {"M": 4096, "N": 50_257},
    "cumsum_backward": {"M": 4096, "N": 50_257},
    "dequant_gemm": {"M": 1000, "N": 4096, "K": 4096},
    "elementwise": {"M": 4096, "N": 8191},
    "elementwise_backward": {"M": 4096, "N": 8191},
    "elementwise_binary": {"M": 4096, "N": 8191},
    "embedding": {"T": 8192, "V": 128_256, "D": 4096},
    "embedding_backward": {"T": 8192, "V": 128_256, "D": 4096},
    "gated_delta_rule": {"B": 1, "H": 2, "N": 4000, "D": 128, "E": 128},
    "gemm": {"M": 4096, "N": 4096, "K": 8192},
    "gemm_backward": {"M": 1000, "N": 2000, "K": 4096},
    "gemm_bias_act": {"M": 1000, "N": 4096, "K": 4096},
    "gemm_bias_act_backward": {"M": 1000, "N": 2000, "K": 4096},
    "gemm_splitk": {"M": 100, "N": 300, "K": 50000},
    "fp8_gemm": {"M": 1000, "N": 4096, "K": 4096},
    "grouped_gemm": {"T": 4096, "E": 8, "K": 4096, "N": 4096},
    "layer_norm": {"M": 4096, "N": 8192},
    "layer_norm_backward": {"M": 4096, "N": 8192},
    "linear_attention": {"B": 1, "H": 2, "N": 4000, "D": 128, "E": 128},
    "linear_attention_backward": {"B": 1, "H": 2, "N": 4000, "D": 128, "E": 128},
    "linear_recurrence": {"B": 2, "T": 4000, "D": 2560},
    "linear_recurrence_backward": {"B": 2, "T": 4000, "D": 2560},
    "logsumexp": {"M": 4096, "N": 50_257},
    "logsumexp_backward": {"M": 4096, "N": 50_257},
    "mla_decode": {"B": 1, "H": 128, "N": 4096, "C": 512, "E": 64},
    "moe": {"T": 512, "R": 2048, "E": 8, "D": 2048, "F": 4096},
    "moe_layer": {"T": 512, "E": 8, "D": 2048, "F": 4096},
    "paged_attention": {"B": 32, "H": 32, "G": 8, "D": 128, "P": 4096, "S": 16, "L": 128},
    "paged_prefill": {
        "T": 2000,
        "B": 8,
        "H": 8,
        "G": 2,
        "D": 128,
        "P": 4096,
        "S": 16,
        "L": 128,
    },
    "permute": {"A": 2, "B": 4096, "C": 16, "D": 127},
    "max_pool2d_indices": {"B": 2, "C": 256, "H": 111, "W": 112},
    "max_pool2d_indices_backward": {"B": 2, "C": 256, "H": 111, "W": 112},
    "pool2d_backward": {"B": 2, "C": 256, "H": 111, "W": 112},
    "pool2d": {"B": 2, "C": 256, "H": 111, "W": 112},
    "reduce": {"M": 4096, "N": 8191},
    "rms_norm": {"M": 4096, "N": 8192},
    "rms_norm_backward": {"M": 4096, "N": 8192},
    "rope": {"S": 4096, "H": 32, "D": 128},
    "rope_backward": {"S": 4096, "H": 32, "D": 128},
    "route": {"T": 2048, "E": 128},
    "sliding_attention": {"B": 1, "H": 2, "G": 1, "M": 1000, "N": 1500, "D": 256},
    "softmax": {"M": 4096, "N": 8192},
    "softmax_backward": {"M": 4096, "N": 8192},
    "ssd": {"N": 1, "T": 4000, "H": 2, "G": 1, "P": 64, "S": 128},
    "swiglu": {"M": 1000, "N": 14_336, "K": 4096},
    "swiglu_backward": {"M": 1000, "N": 14_336, "K": 4096},
    "swiglu_gates": {"M": 1000, "N": 14_336, "K": 4096},
    "topk": {"M": 4096, "N": 8192},
    "transpose": {"B": 2, "M": 4096, "N": 8191},
    "w4a8_gemm": {"M": 1000, "N": 4096, "K": 4096},
}
"""As in models: Llama's 8,192 columns and heads of 128 and 256, DeepSeek's latents of 512."""
GPUS = ("amd-mi300x", "nvidia-a100", "nvidia-h200")
TAKES_LONG = ("attention_backward", "attention_varlen", "moe", "moe_layer", "paged_prefill")
"""Five products, of which many tilings are tried until one fits, and sections of sections."""
REFUSED = {
    "ascend-910b": {
        "SEP320": "moe moe_layer",
        "SEP321": "attention attention_bias attention_decode attention_lse block_sparse_attention "
        "fp8_gemm mla_decode paged_attention sliding_attention w4a8_gemm",
        "SEP401": "attention_varlen gated_delta_rule grouped_gemm linear_attention "
        "linear_attention_backward paged_prefill ssd",
    }
}
"""What a machine's mapping has no way for: its cube cannot read sums back, or lacks the types."""
WHOLE = tuple(name for name in mapping_names() if name not in REFUSED)


def test_there_are_cases_for_every_operator():
    assert set(LARGE) == set(operators.names())
    for name in operators.names():
        assert len(operators.cases(name)) == 3, name


@pytest.mark.parametrize(
    ("operator", "machine"), in_turn(operators.names(), mapping_names(), slow=TAKES_LONG)
)
@pytest.mark.one_in(3, first=1)
def test_every_operator_fits_every_machine(operator, machine):
    """By its example, of which no index needs more than 32 bits; the pipeline verifies it."""
    shapes = operators.module(operator).EXAMPLE
    refused = REFUSED.get(machine, {}).items()
    codes = [code for code, names in refused if operator in names.split()]
    stages = septran.produce_stages(operator, machine, shapes=shapes)
    if codes:
        with pytest.raises(SepTranError) as caught:
            _ = stages.tile_program
        assert caught.value.code == codes[0]
    else:
        assert index_dtype(stages.tile_program) == "int32"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "machine"),
    [
        *in_turn(operators.names(), WHOLE, alone=True),
        *in_turn(operators.names(), WHOLE, first=3, alone=True),
    ],
)
def test_every_operator_fits_machines_in_sizes_of_models(operator, machine):
    """The pipeline refuses what does not fit, and verifies the rest."""
    program = septran.produce_stages(operator, machine, shapes=LARGE[operator]).tile_program
    assert {buffer.name for buffer in program.buffers} >= set(program.params)


def produced(operator, machine, dtype):
    case = operators.cases(operator)[0]
    return septran.produce_stages(
        operator, machine, shapes=case.sizes, static=case.static, dtypes=dtype
    )


@lru_cache(maxsize=1)
def wanted(operator, dtype):
    """Inputs and bounds of an operator: the logic's own, though tiles differ between machines."""
    stages = produced(operator, mapping_names()[0], dtype)
    given = sample(Specialisation.of(stages))
    return given, error_bounds(stages.task_tree, given)


@pytest.mark.parametrize(
    ("operator", "machine", "dtype"),
    [
        *(
            pytest.param(*p.values, "float16", marks=p.marks)
            for p in in_turn(operators.names(), WHOLE, first=3)
        ),
        *(
            pytest.param(*p.values, "float32", marks=pytest.mark.slow)
            for p in in_turn(operators.names(), GPUS, alone=True)
        ),
    ],
)
@pytest.mark.one_in(3)
def test_every_operator_is_right_on_every_machine(operator, machine, dtype):
    """Of the program of tiles; the code of all but GPUs `tests/test_matrix.py` runs, in float32."""
    given, bounds = wanted(operator, dtype)
    program = produced(operator, machine, dtype).tile_program
    for order in ("early", "late"):
        results = septran.interpret(program, given, order=order)
        for name, bound in bounds.items():
            accuracy = compare(name, results[name], bound)
            assert accuracy.right, str(accuracy)
            assert accuracy.unknown == 0
