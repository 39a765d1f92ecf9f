"""all-MiniLM-L6-v2 in kernels: each kernel by its bound, the whole beside torch in float64."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import septran
from benchmarks.models import logic, minilm
from benchmarks.models.encoder import ranking, swapped
from benchmarks.models.minilm import HEADS, LAYERS, MiniLM, Words, padded
from benchmarks.models.packed import Batch, PackedMiniLM, panels
from benchmarks.models.rounded import LARGE, RoundedMiniLM, RoundedProduct, by_size, reordered
from benchmarks.models.texts import TEXTS

TOKENS = [[5, 3, 7], [1], [2, 9, 4, 8, 6, 0, 3], [1, 2, 3, 4, 5]]
SIZE, INNER = 4 * HEADS, 96


@pytest.fixture(scope="module")
def weights():
    """A model of the same layers, of few and random weights."""
    torch.manual_seed(0)

    def pair(name, rows, columns):
        made = {f"{name}.weight": torch.randn(rows, columns) / columns**0.5}
        return made | {f"{name}.bias": torch.randn(rows)}

    def norm(name):
        return {f"{name}.weight": 1 + torch.randn(SIZE) / 9, f"{name}.bias": torch.randn(SIZE)}

    tables = {"word": 10, "position": 8, "token_type": 2}
    made = {f"embeddings.{n}_embeddings.weight": torch.randn(v, SIZE) for n, v in tables.items()}
    made |= norm("embeddings.LayerNorm")
    for layer in (f"encoder.layer.{n}" for n in range(LAYERS)):
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            made |= pair(f"{layer}.attention.{part}", SIZE, SIZE)
        made |= pair(f"{layer}.intermediate.dense", INNER, SIZE)
        made |= pair(f"{layer}.output.dense", SIZE, INNER)
        made |= norm(f"{layer}.attention.output.LayerNorm") | norm(f"{layer}.output.LayerNorm")
    return made


@pytest.fixture(scope="module")
def model(weights):
    return PackedMiniLM(weights)


def deviations(weights, model, tokens):
    """How far the kernels' vectors and torch's are from those of float64."""
    exact = MiniLM({n: w.double() for n, w in weights.items()}).double()(*padded(tokens))
    torchs = MiniLM(weights)(*padded(tokens))
    return tuple((x.double() - exact).abs().max().item() for x in (model(Batch.of(tokens)), torchs))


def test_vectors_of_unequal_sentences_are_as_near_to_float64_as_torchs(weights, model):
    ours, theirs = deviations(weights, model, TOKENS)
    # Both round as often, in another order; the bounds of the kernels are tested below.
    assert ours <= 4 * theirs < 1e-5


@pytest.mark.slow
def test_many_rows_are_multiplied_by_the_librarys_kernel(weights, model):
    tokens = TOKENS * 5
    ours, theirs = deviations(weights, model, tokens)
    assert ours <= 4 * theirs < 1e-5
    assert Batch.of(tokens).ids.shape == (80,)
    assert model.linear.many.specialisations


def test_a_sentence_has_the_vector_that_it_has_alone(model):
    together = model(Batch.of(TOKENS))
    torch.testing.assert_close(together[2:3], model(Batch.of(TOKENS[2:3])))


def test_channels_in_another_order_are_the_same_model(weights):
    order = torch.randperm(SIZE)
    turned = {n: reordered(n, w, order) for n, w in weights.items()}
    wanted, found = (MiniLM(w)(*padded(TOKENS)) for w in (weights, turned))
    torch.testing.assert_close(found[:, order.argsort()], wanted)


def test_the_last_channels_are_those_that_norms_make_largest(weights):
    some = dict(weights)
    name = "encoder.layer.3.output.LayerNorm.bias"
    some[name] = torch.where(torch.arange(SIZE) == 7, 90.0, some[name])
    assert by_size(some)[-1] == 7


def test_products_of_bytes_are_as_far_off_as_their_steps(weights):
    """Half a step of each row and of each weight, times the size of what it is multiplied by."""
    del weights
    torch.manual_seed(2)
    x, w, b = torch.randn(30, 3 * SIZE), torch.randn(96, 3 * SIZE), torch.randn(96)
    x[4], w[5] = 0, 0
    product = RoundedProduct.compiled("cpu-x86", "none")
    found = product(x, *product.given(w, b))
    packed, last, scale, *_ = product.given(w, b)
    # A row's least element, or 0, becomes the first of 256 steps.
    span = x[:, :-LARGE].amax(1).clamp(min=0) - x[:, :-LARGE].amin(1).clamp(max=0)
    half = span / 255 / 2, scale / 2
    rows, columns = (t[:, :-LARGE].abs().sum(1) for t in (x, w))
    count = x.shape[1] - LARGE
    # Where both ends are rounded away from 0, the greatest element is a whole step off.
    most = 2 * half[0][:, None] * (columns + count * half[1]) + rows[:, None] * half[1]
    assert ((found - (x.double() @ w.T.double() + b)).abs() <= most + 1e-4).all()
    assert packed.dtype == torch.int8
    assert last.shape[1] == LARGE


@pytest.mark.slow
def test_the_published_model_of_bytes_swaps_only_texts_that_are_about_as_near(published):
    weights, words = minilm.load(published), Words(published)
    tokens = [words(text) for text in TEXTS]
    exact = MiniLM({n: w.double() for n, w in weights.items()}).double()(*padded(tokens))
    found = RoundedMiniLM(weights)(Batch.of(tokens)).double()
    others, least = swapped(found, exact)
    assert others == 0
    # Weights of 8 bits alone, a scale an output, swap what is 0.0067 apart.
    assert least < 0.01
    assert (found * exact).sum(1).min() > 0.999


def test_what_changes_its_order_is_counted():
    def at(*degrees):
        angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
        return torch.stack([angles.cos(), angles.sin()], 1)

    assert swapped(at(0, 10, 40), at(0, 10, 40)) == (0, 0)
    others, least = swapped(at(0, 10, 19), at(0, 10, 40))
    assert others == 1  # to 10 degrees the last one is nearer now
    assert least == pytest.approx(np.cos(np.deg2rad(10)) - np.cos(np.deg2rad(30)))


BATCH = Batch.of(TOKENS)
ROWS = len(BATCH.ids)


@pytest.mark.parametrize("case", ["embed", "add_norm", "packed_attention", "mean_pool", "linear"])
@pytest.mark.one_in(3)
def test_each_kernel_keeps_its_error_bound(case):
    torch.manual_seed(1)
    x, w, b = torch.randn(ROWS, SIZE), torch.randn(SIZE), torch.randn(SIZE)
    inputs = {
        "embed": (torch.randn(10, SIZE), torch.randn(8, SIZE), w, b, BATCH.ids, BATCH.place),
        "add_norm": (x, torch.randn(ROWS, SIZE), w, b),
        "packed_attention": (torch.randn(ROWS, 3 * SIZE), BATCH.rows, BATCH.lengths),
        "mean_pool": (x, BATCH.rows, BATCH.lengths),
        "linear": (x, panels(torch.randn(256, SIZE)), torch.randn(256)),
    }[case]
    static = {"packed_attention": {"heads": HEADS}, "linear": {"act": "gelu"}}.get(case, {})
    kernel = septran.compile(getattr(logic, case), "cpu-x86", static=static)
    kernel.check(*inputs).raise_if_wrong()


def test_panels_hold_the_columns_of_the_transposed_weights():
    w = torch.randn(1152, 40)
    found = panels(w, most=128)
    assert found.shape == (18, 40, 64)  # 9 of 128 would be uneven for two cores
    assert torch.equal(found.transpose(0, 1).reshape(40, 1152), w.T)


def test_rows_beyond_the_end_name_a_token_of_the_sentence():
    assert BATCH.rows[1].tolist() == [3] * 7
    assert BATCH.rows[3].tolist() == [11, 12, 13, 14, 15, 15, 15]
    assert BATCH.kept.tolist()[:5] == [0, 1, 2, 7, 14]


def test_words_are_parted_at_the_longest_known_beginning(tmp_path):
    known = ["[CLS]", "[SEP]", "[UNK]", "cafe", "cafe's", "##s", "un", "##known", "'", "!", "中"]
    (tmp_path / "vocab.txt").write_text("\n".join(known), encoding="utf-8")
    words = Words(tmp_path)
    found = [known[n] for n in words("Cafés' unknown中!\tqqq")]
    assert found == [
        "[CLS]", "cafe", "##s", "'", "un", "##known", "中", "!", "[UNK]", "[SEP]",
    ]  # fmt: skip


def test_weights_are_read_as_they_were_written(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    header = {
        "__metadata__": {"format": "pt"},
        "n": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]},
    }
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(8) + values.tobytes()
    (tmp_path / "model.safetensors").write_bytes(content)
    found = minilm.load(tmp_path)
    assert list(found) == ["w"]
    assert np.array_equal(found["w"].numpy(), values)


@pytest.fixture(scope="module")
def published():
    place = minilm.folder()
    if place is None:
        pytest.skip(minilm.MISSING)
    return place


def test_the_published_words_are_those_of_its_tokenizer(published):
    tokenizers = pytest.importorskip("tokenizers", reason="comes with septran[models]")
    theirs = tokenizers.Tokenizer.from_file(str(published / "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    words = Words(published)
    for text in (
        *TEXTS,
        "Naïve café №5, 東京 costs $3.50 — unbelievably\ttokenization-heavy zzqqx",
    ):
        assert words(text) == theirs.encode(text).ids


@pytest.mark.slow
def test_the_published_model_ranks_texts_as_float64_does(published):
    weights, words = minilm.load(published), Words(published)
    tokens = [words(text) for text in TEXTS]
    exact = MiniLM({n: w.double() for n, w in weights.items()}).double()(*padded(tokens))
    model = PackedMiniLM(weights)
    found = model(Batch.of(tokens)).double()
    assert ranking(found).equal(ranking(exact))
    ours, theirs = deviations(weights, model, tokens)
    assert ours <= 4 * theirs < 1e-5


@pytest.mark.slow
def test_onnxruntime_is_given_the_same_model(weights):
    pytest.importorskip("onnxruntime", reason="comes with septran[models]")
    from benchmarks.models.encoder import in_groups
    from benchmarks.models.onnx_encoder import OnnxEncoder, graph

    rival, (ids, lengths) = OnnxEncoder(graph(weights), 1), padded(TOKENS)
    wanted = MiniLM(weights)(ids, lengths)
    torch.testing.assert_close(rival(ids, lengths), wanted)
    torch.testing.assert_close(in_groups(rival, ids, lengths)(), wanted)
