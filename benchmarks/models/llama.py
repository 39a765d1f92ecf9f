"""The decoder in llama.cpp: a file of the model in its format, and its library called by token.

``pip install gguf llama-cpp-python``; the latter builds the library for this host. Elsewhere built,
it is found by ``LLAMA_CPP_LIB_PATH``, its folder, as that package says.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.models.decoder import BASE, EPS, Shape
from benchmarks.models.decoder_int4 import Quantised
from benchmarks.models.int4 import Int4

MISSING = "pip install gguf llama-cpp-python"
"""What to do where it is not there."""
FLOAT32, FLOAT16 = 0, 1
"""Numbers of ggml's types."""
DECODED = 0
"""What `llama_decode` returns where nothing is wrong."""


def there() -> bool:
    """Whether the packages are installed."""
    return all(importlib.util.find_spec(name) for name in ("gguf", "llama_cpp"))


def write(path: Path, shape: Shape, model: Quantised) -> None:
    """Write the model as a GGUF file of the architecture "llama", matrices as Q4_0."""
    import gguf

    file = gguf.GGUFWriter(path, "llama")
    file.add_block_count(shape.layers)
    file.add_context_length(shape.places)
    file.add_embedding_length(shape.size)
    file.add_feed_forward_length(shape.hidden)
    file.add_head_count(shape.heads)
    file.add_head_count_kv(shape.groups)
    file.add_rope_dimension_count(shape.each)
    file.add_rope_freq_base(BASE)
    file.add_layer_norm_rms_eps(EPS)
    file.add_vocab_size(shape.words)
    file.add_tokenizer_model("no_vocab")
    file.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)

    def matrix(name: str, weights: Int4) -> None:
        kind = gguf.GGMLQuantizationType.Q4_0
        file.add_tensor(f"{name}.weight", weights.for_ggml().numpy(), raw_dtype=kind)

    # The words' vectors are the head's matrix, too, where there is no "output".
    matrix("token_embd", model.words)
    file.add_tensor("output_norm.weight", model.norm.numpy())
    sizes = (shape.size, shape.groups * shape.each, shape.groups * shape.each)
    for n, (w, norms) in enumerate(zip(model.layers, model.norms, strict=True)):
        q, k, v = w["qkv"].columns(*sizes)
        for name, x in {
            "attn_q": neighbours(q, shape.each), "attn_k": neighbours(k, shape.each), "attn_v": v,
            "attn_output": w["out"], "ffn_gate": w["gate"], "ffn_up": w["up"],
            "ffn_down": w["down"],
        }.items():  # fmt: skip
            matrix(f"blk.{n}.{name}", x)
        for name, norm in zip(("attn_norm", "ffn_norm"), norms, strict=True):
            file.add_tensor(f"blk.{n}.{name}.weight", norm.numpy())
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def neighbours(weights: Int4, each: int) -> Int4:
    """Put what is rotated together side by side, as "llama" has it; here it is in two halves."""
    order = torch.arange(weights.scale.shape[1]).view(-1, 2, each // 2).transpose(1, 2).flatten()
    return Int4(weights.numbers[..., order], weights.scale[..., order])


class InLlamaCpp:
    """The model of a file; keys and values are kept in float32 or, as it does itself, float16."""

    def __init__(self, path: Path, shape: Shape, cache: int = FLOAT16) -> None:
        from llama_cpp import llama_cpp

        self.api: Any = llama_cpp
        self.words = shape.words
        # The library asks Python where its messages go; the object must live as long as it does.
        self.silent = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silent, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.type_k, settings.type_v = shape.places, cache, cache
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        assert self.context, f"llama.cpp did not take {path}"
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.batch = llama_cpp.llama_batch_init(settings.n_batch, 0, 1)

    def __call__(self, token: int, position: int) -> Tensor:
        """The logits after a token; what was seen at later places is forgotten."""
        self.read([token], position)
        found = ctypes.cast(self.api.llama_get_logits(self.context), ctypes.c_void_p).value
        values = (ctypes.c_float * self.words).from_address(found)
        return torch.frombuffer(values, dtype=torch.float32)[None].clone()

    def read(self, tokens: Sequence[int], first: int) -> None:
        """Take tokens at places from `first` on, on as many threads as torch has."""
        api, batch, threads = self.api, self.batch, torch.get_num_threads()
        api.llama_memory_seq_rm(self.memory, 0, first, -1)
        api.llama_set_n_threads(self.context, threads, threads)
        batch.n_tokens = len(tokens)
        for n, token in enumerate(tokens):
            batch.token[n], batch.pos[n] = token, first + n
            batch.n_seq_id[n], batch.seq_id[n][0] = 1, 0
            batch.logits[n] = n == len(tokens) - 1
        assert api.llama_decode(self.context, batch) == DECODED

    def close(self) -> None:
        """Give the memory of model and caches back."""
        self.api.llama_batch_free(self.batch)
        self.api.llama_free(self.context)
        self.api.llama_model_free(self.model)
