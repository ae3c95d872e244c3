"""Arrays of every kind: read where they lie, and refused with words that help."""

from __future__ import annotations

import array
import tracemalloc

import numpy as np
import pytest

import fewstep
from fewstep import Block, Geometry, decide, errors

KERNEL = np.array([[2.0, 0.5], [0.5, 1.25]])
RESIDUALS = np.array([1.5, -1.0])


def answer(kernel, residuals) -> dict:
    return decide(kernel, residuals).to_dict()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numpy_copies_nothing_of_what_rust_can_read(dtype):
    """Numpy tells what it allocates; what core keeps is not among that."""
    rows, columns = 4, 1 << 18
    whole = np.ones((2 * rows, 2 * columns), dtype=dtype)
    frozen = whole[:rows, :columns].copy()
    frozen.flags.writeable = False
    forms = {
        "as it is": np.ones((rows, columns), dtype=dtype),
        "columns first": np.ones((columns, rows), dtype=dtype).T,
        "every other": whole[::2, ::2],
        "backwards": whole[:rows, :columns][::-1, ::-1],
        "read-only": frozen,
    }
    for name, features in forms.items():
        block = Block.from_features("a", features, features[0])
        assert block.kernel.tolist() == np.full((rows, rows), float(columns)).tolist()
        tracemalloc.start()
        Block.from_features("a", features, features[0])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < features.nbytes / 100, name
    tracemalloc.start()
    Block.from_features("a", np.ones((rows, columns), dtype="float16"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most > 8 * rows * columns, "half precision is converted, so the measure works"


def test_what_was_handed_over_is_not_looked_at_again():
    kernel, residuals = KERNEL.copy(), RESIDUALS.copy()
    geometry = Geometry.from_kernel(kernel, residuals)
    before = decide(geometry).to_dict()
    kernel[:], residuals[:] = 0.0, 7.0
    assert decide(geometry).to_dict() == before
    given = KERNEL.copy()
    decide(given, RESIDUALS)
    assert given.tolist() == KERNEL.tolist()


def misaligned(values: np.ndarray) -> np.ndarray:
    """The same numbers, one byte beside where the processor would have them."""
    room = bytearray(values.nbytes + 1)
    found = np.frombuffer(room, dtype=values.dtype, offset=1, count=values.size)
    found = found.reshape(values.shape)
    found[...] = values
    assert not found.flags.aligned and found.flags.c_contiguous
    return found


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_between_the_words_of_memory_are_read(dtype):
    kernel, residuals = (misaligned(one.astype(dtype)) for one in (KERNEL, RESIDUALS))
    assert answer(kernel, residuals) == answer(KERNEL, RESIDUALS)
    weights = misaligned(np.array([1.0, 3.0], dtype=dtype))
    expected = fewstep.gibbs.relative_entropy([1.0, 3.0], [1.0, 1.0])
    assert fewstep.gibbs.relative_entropy(weights, [1, 1]) == expected


class Viewed:
    """Something that is no array and lets numpy view it, as tensors do."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return self._values if dtype is None else self._values.astype(dtype)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_whatever_numpy_can_view_is_taken():
    expected = answer(KERNEL, RESIDUALS)
    for kernel, residuals in [
        (Viewed(KERNEL), Viewed(RESIDUALS)),
        (Viewed(KERNEL.astype(np.float32)), RESIDUALS.astype(np.float16)),
        (memoryview(KERNEL), memoryview(array.array("d", RESIDUALS))),
        (np.asmatrix(KERNEL), array.array("f", RESIDUALS)),
        (KERNEL.astype(">f4"), RESIDUALS.astype(np.longdouble)),
        (np.ma.masked_array(KERNEL), np.ma.masked_array(RESIDUALS)),
        (KERNEL.tolist(), tuple(RESIDUALS)),
    ]:
        assert answer(kernel, residuals) == expected
    whole = answer([[2, 1], [1, 3]], [2, -1])
    for dtype in ("int8", "uint16", "int64", "uint64"):
        kernel, residuals = np.array([[2, 1], [1, 3]], dtype), np.array([2.0, -1.0])
        assert answer(kernel, residuals) == whole


def test_tensors_of_torch_are_viewed():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    expected = answer(KERNEL, RESIDUALS)
    for dtype in (torch.float64, torch.float32, torch.float16):
        kernel = torch.tensor(KERNEL, dtype=dtype)
        residuals = torch.tensor(RESIDUALS, dtype=dtype)
        assert answer(kernel, residuals) == expected
        assert answer(kernel.T, torch.stack([residuals, residuals], dim=1)[:, 0]) == expected
    features = torch.ones((4, 1 << 18), dtype=torch.float32)
    tracemalloc.start()
    Block.from_features("a", features, features[0])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < features.nbytes / 100
    with pytest.raises(errors.WrongType, match="kernel is (Tensor|Parameter), .*requires grad"):
        decide(torch.tensor(KERNEL, requires_grad=True), RESIDUALS)
    with pytest.raises(errors.WrongType, match="kernel is Tensor, which numpy cannot view"):
        decide(torch.empty((2, 2), device="meta"), RESIDUALS)
    with pytest.raises(errors.WrongType, match="bfloat16|BFloat16"):
        decide(torch.tensor(KERNEL, dtype=torch.bfloat16), RESIDUALS)


def test_arrays_of_jax_are_viewed():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    expected = answer(KERNEL, RESIDUALS)
    kernel, residuals = jax.numpy.asarray(KERNEL), jax.numpy.asarray(RESIDUALS)
    assert kernel.dtype == "float32"
    assert answer(kernel, residuals) == expected
    assert answer(kernel.T, residuals[::-1][::-1]) == expected
    features = jax.numpy.ones((4, 1 << 18))
    tracemalloc.start()
    Block.from_features("a", features, features[0])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < features.nbytes / 2


@pytest.mark.parametrize(
    "kernel, error, words",
    [
        (KERNEL + 1j, errors.WrongType, "kernel has entries of type complex128; real numbers"),
        (KERNEL > 1, errors.WrongType, "kernel has entries of type bool; real numbers"),
        (KERNEL.astype(object), errors.WrongType, "kernel has entries of type object; real"),
        (KERNEL.astype(str), errors.WrongType, "kernel has entries of type <U32; real numbers"),
        (object(), errors.WrongType, "kernel has entries of type object; real numbers"),
        (None, errors.WrongType, "kernel has entries of type object; real numbers"),
        ([[1.0, 2.0], [3.0]], errors.WrongType, "kernel is list, which numpy cannot view"),
        (RESIDUALS, errors.WrongShape, r"kernel has 1 axes (shape (2,)); 2 are needed"),
        (KERNEL[None], errors.WrongShape, r"kernel has 3 axes (shape (1, 2, 2)); 2 are needed"),
        (np.ma.masked_less(KERNEL, 1.0), errors.WrongType, "kernel has masked entries; fill them"),
        (np.full((2, 2), np.nan), errors.NotFinite, "has the entry NaN at position 0; every entry"),
        (np.float32([[1, 0], [0, np.inf]]), errors.NotFinite, "has the entry inf at position 3;"),
        (np.eye(3), errors.SizeMismatch, "3"),
        (np.ones((2, 3)), errors.SizeMismatch, "3"),
        (np.ones((0, 0)), errors.Empty, "is empty; give at least one entry"),
    ],
)
def test_what_is_no_matrix_is_refused_in_words(kernel, error, words):
    with pytest.raises(error) as refused:
        decide(kernel, RESIDUALS)
    assert words in str(refused.value)
    assert isinstance(refused.value, fewstep.FewstepError)
