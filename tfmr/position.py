"""Positional encodings: sinusoidal, learned and rotary.

Without them, the encoder's output for a token is independent of the order of the other tokens.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfmr.checks import check_floating, check_sizes, check_tensor
from tfmr.errors import TfmrError, require


def frequencies(d: int, base: float = 10000.0) -> Float[Tensor, "pairs"]:
    r"""The frequencies :math:`\omega_i = base^{-2i/d}` in radians per position, highest first.

    There are ``d / 2``, one per pair of dimensions; the wavelength of pair :math:`i` is
    :math:`2\pi / \omega_i` positions. Vaswani et al. (2017), section 3.5.

    The result is in double precision: the error of an angle is the error of the frequency times
    the position.

    Raises:
        TfmrError: if ``d`` is not a positive even number.
    """
    _check_even(d)
    exponents = torch.arange(0, d, 2, dtype=torch.float64) / d
    omega: Tensor = base**-exponents
    return omega


def sinusoidal_naive(
    length: int, d_model: int, base: float = 10000.0
) -> Float[Tensor, "length d_model"]:
    r"""The sinusoidal table, computed entry by entry from the formulas of the paper.

    .. math:: PE_{(pos, 2i)} = \sin(pos / base^{2i/d_{model}}), \qquad
              PE_{(pos, 2i+1)} = \cos(pos / base^{2i/d_{model}})

    Vaswani et al. (2017), section 3.5. :func:`sinusoidal` computes the same table without a loop.

    Raises:
        TfmrError: if ``length`` is negative or ``d_model`` is not a positive even number.
    """
    _check_length(length)
    _check_even(d_model)
    table = torch.empty(length, d_model)
    for pos in range(length):
        for i in range(d_model // 2):
            angle = pos / base ** (2 * i / d_model)
            table[pos, 2 * i] = math.sin(angle)
            table[pos, 2 * i + 1] = math.cos(angle)
    return table


def sinusoidal(length: int, d_model: int, base: float = 10000.0) -> Float[Tensor, "length d_model"]:
    """A table with one row per position and one sine and cosine per frequency.

    Vaswani et al. (2017), section 3.5.

    Raises:
        TfmrError: if ``length`` is negative or ``d_model`` is not a positive even number.
    """
    _check_length(length)
    angles = torch.outer(torch.arange(length).double(), frequencies(d_model, base))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, d_model).float()


def _check_even(d: int) -> None:
    require(
        d > 0 and d % 2 == 0,
        "a positional encoding has a sine and a cosine per frequency, so its size must be "
        f"positive and even: got d={d}",
    )


def _check_length(length: int) -> None:
    require(length >= 0, f"the number of positions must not be negative: got {length}")


def _rows(x: Tensor, start: int | Tensor, table: Tensor, width: int) -> slice | Tensor:
    """The rows of ``table`` for ``x``, which must be ``(..., length, width)``, from ``start``.

    A tensor is not compared with the length of the table, which would mean waiting for a GPU.
    """
    check_tensor(x, "x", table)
    max_length = len(table)
    if x.dim() < 2 or x.shape[-1] != width:
        raise TfmrError(
            f"the input of a positional encoding must be (..., length, {width}): got "
            f"{tuple(x.shape)}"
        )
    if isinstance(start, Tensor):
        return start + torch.arange(x.shape[-2], device=x.device)
    end = start + x.shape[-2]
    if start < 0 or end > max_length:
        raise TfmrError(
            f"the model has positions 0 to {max_length - 1}: got {start} to {end - 1}; shorten the "
            f"sentence, or build the model with max_length >= {end}"
        )
    return slice(start, end)


class SinusoidalPosition(nn.Module):
    """Add the rows of :func:`sinusoidal` to the embeddings; no parameters.

    Args:
        d_model: size of an embedding.
        max_length: number of positions in the table.
        base: base of the geometric progression of wavelengths; 10000 in the paper.
    """

    table: Tensor

    def __init__(self, d_model: int, max_length: int, base: float = 10000.0) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal(max_length, d_model, base), persistent=False)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"d_model={self.table.shape[1]}, max_length={len(self.table)}"

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int | Int[Tensor, ""] = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Add the encodings of positions ``start``, ``start + 1``, … to ``x``.

        Raises:
            TfmrError: if a position is not in the table, or ``x`` has the wrong size or type.
        """
        return x + self.table[_rows(x, start, self.table, self.table.shape[1])]


class LearnedPosition(nn.Module):
    """Add a learned vector per position. Vaswani et al. (2017), table 3, row E.

    Args:
        d_model: size of an embedding.
        max_length: number of positions.

    Raises:
        TfmrError: if a size is not positive.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        check_sizes(d_model=d_model, max_length=max_length)
        self.table = nn.Parameter(torch.randn(max_length, d_model) * d_model**-0.5)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"d_model={self.table.shape[1]}, max_length={len(self.table)}"

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int | Int[Tensor, ""] = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Add the vectors of positions ``start``, ``start + 1``, … to ``x``.

        Raises:
            TfmrError: if a position has no vector, or ``x`` has the wrong size or type.
        """
        return x + self.table[_rows(x, start, self.table, self.table.shape[1])]


def rotate_naive(
    x: Float[Tensor, "*batch length d_k"], start: int = 0, base: float = 10000.0
) -> Float[Tensor, "*batch length d_k"]:
    r"""Rotate each pair of dimensions at position :math:`pos` by the angle :math:`pos\,\omega_i`.

    One 2 × 2 rotation matrix per position and pair, as in Su et al. (2021), section 3.2.1,
    equation 13. :class:`RotaryPosition` computes the same result without a loop.

    Raises:
        TfmrError: if ``x`` is not a floating-point tensor, or the size of the vectors is not a
            positive even number.
    """
    check_floating(x, "x")
    omega = frequencies(x.shape[-1], base)
    rotated = torch.empty_like(x)
    for index in range(x.shape[-2]):
        for i, frequency in enumerate(omega.tolist()):
            angle = (start + index) * frequency
            rotation = x.new_tensor(
                [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            )
            pair = slice(2 * i, 2 * i + 2)
            rotated[..., index, pair] = x[..., index, pair] @ rotation.T
    return rotated


class RotaryPosition(nn.Module):
    r"""Rotary position embedding: rotate queries and keys instead of adding to the embeddings.

    The dot product of a query rotated by :math:`m\omega` and a key rotated by :math:`n\omega`
    depends on the positions only through :math:`m - n`. Su et al. (2021), section 3.2.2,
    equation 15.

    Args:
        d_k: size of the queries and keys of one head.
        max_length: number of positions in the table of angles.
        base: base of the geometric progression of wavelengths.
        scale: changes the frequencies, for example :class:`tfmr.family.llama.RopeScaling`.

    Raises:
        TfmrError: if ``max_length`` is negative or ``d_k`` is not a positive even number.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        d_k: int,
        max_length: int,
        base: float = 10000.0,
        scale: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        _check_length(max_length)
        omega = frequencies(d_k, base)
        angles = torch.outer(torch.arange(max_length).double(), scale(omega) if scale else omega)
        self.register_buffer("sin", angles.sin().float(), persistent=False)
        self.register_buffer("cos", angles.cos().float(), persistent=False)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"d_k={2 * self.cos.shape[1]}, max_length={len(self.cos)}"

    def forward(
        self, x: Float[Tensor, "*batch length d_k"], start: int | Int[Tensor, ""] = 0
    ) -> Float[Tensor, "*batch length d_k"]:
        """Rotate the vectors of ``x`` according to positions ``start``, ``start + 1``, ….

        Raises:
            TfmrError: if a position is not in the table, or ``x`` has the wrong size or type.
        """
        positions = _rows(x, start, self.cos, 2 * self.cos.shape[1])
        cos, sin = self.cos[positions], self.sin[positions]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
