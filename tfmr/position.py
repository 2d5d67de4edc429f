"""Position: how a network without recurrence is told the order of its input."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.errors import TfmrError, require


def frequencies(d: int, base: float = 10000.0) -> Float[Tensor, "pairs"]:
    r"""The frequencies :math:`\omega_i = base^{-2i/d}` in radians per position, fastest first.

    A vector of ``d`` numbers holds ``d / 2`` of them, one per pair of dimensions; the wavelength of
    pair :math:`i` is :math:`2\pi / \omega_i` positions. Vaswani et al. (2017), section 3.5.

    In double precision, because an angle multiplies a frequency, and its error, by the position.

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
    r"""The table of the paper, written as its two formulas are.

    .. math:: PE_{(pos, 2i)} = \sin(pos / base^{2i/d_{model}}), \qquad
              PE_{(pos, 2i+1)} = \cos(pos / base^{2i/d_{model}})

    Vaswani et al. (2017), section 3.5. :func:`sinusoidal` computes the same at once.

    Raises:
        TfmrError: if ``d_model`` is not even.
    """
    _check_even(d_model)
    table = torch.empty(length, d_model)
    for pos in range(length):
        for i in range(d_model // 2):
            angle = pos / base ** (2 * i / d_model)
            table[pos, 2 * i] = math.sin(angle)
            table[pos, 2 * i + 1] = math.cos(angle)
    return table


def sinusoidal(length: int, d_model: int, base: float = 10000.0) -> Float[Tensor, "length d_model"]:
    """One row per position, a sine and a cosine per frequency: ``(length, d_model)``.

    Vaswani et al. (2017), section 3.5.

    Raises:
        TfmrError: if ``d_model`` is not even.
    """
    angles = torch.outer(torch.arange(length).double(), frequencies(d_model, base))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, d_model).float()


def _check_even(d: int) -> None:
    require(
        d > 0 and d % 2 == 0,
        "positions are written into pairs of dimensions (a sine and a cosine), so d must be "
        f"even: got d={d}",
    )


def _check_end(end: int, max_length: int) -> None:
    if end > max_length:
        raise TfmrError(
            f"the model has positions for {max_length} tokens and was given {end}: shorten the "
            f"sentence, or build the model with max_length >= {end}"
        )


class SinusoidalPosition(nn.Module):
    """Add the rows of :func:`sinusoidal` to the embeddings. Nothing is learned.

    Args:
        d_model: size of an embedding.
        max_length: the number of positions in the table.
        base: of the geometric progression of wavelengths; the paper's 10000.
    """

    table: Tensor

    def __init__(self, d_model: int, max_length: int, base: float = 10000.0) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal(max_length, d_model, base), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Tell the vectors of ``x`` that they stand at ``start``, ``start + 1`` and so on.

        Raises:
            TfmrError: if the last of them lies beyond the table.
        """
        end = start + x.shape[1]
        _check_end(end, len(self.table))
        return x + self.table[start:end]


class LearnedPosition(nn.Module):
    """Add a learned vector per position. Vaswani et al. (2017), table 3, row E.

    Args:
        d_model: size of an embedding.
        max_length: the number of positions that have a vector; there is none beyond.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_length, d_model) * d_model**-0.5)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Tell the vectors of ``x`` that they stand at ``start``, ``start + 1`` and so on.

        Raises:
            TfmrError: if the last of them has no vector.
        """
        end = start + x.shape[1]
        _check_end(end, len(self.table))
        return x + self.table[start:end]


def rotate_naive(
    x: Float[Tensor, "*batch length d_k"], start: int = 0, base: float = 10000.0
) -> Float[Tensor, "*batch length d_k"]:
    r"""Turn each pair of dimensions at position :math:`pos` by :math:`pos \cdot \omega_i`.

    One 2 × 2 rotation matrix per position and pair, as in Su et al. (2021), section 3.2.1,
    equation 13. :class:`RotaryPosition` computes the same at once.
    """
    omega = frequencies(x.shape[-1], base)
    turned = torch.empty_like(x)
    for index in range(x.shape[-2]):
        for i, frequency in enumerate(omega.tolist()):
            angle = (start + index) * frequency
            rotation = x.new_tensor(
                [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            )
            pair = slice(2 * i, 2 * i + 2)
            turned[..., index, pair] = x[..., index, pair] @ rotation.T
    return turned


class RotaryPosition(nn.Module):
    r"""Rotary positions: turn queries and keys instead of adding to embeddings.

    The scalar product of a query turned by :math:`m\omega` and a key turned by :math:`n\omega`
    depends on the positions through :math:`m - n` alone. Su et al. (2021), section 3.2.2,
    equation 15.

    Args:
        d_k: size of a query and a key of one head.
        max_length: the number of positions in the table of angles.
        base: of the geometric progression of wavelengths.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, d_k: int, max_length: int, base: float = 10000.0) -> None:
        super().__init__()
        table = sinusoidal(max_length, d_k, base)
        self.register_buffer("sin", table[:, 0::2].clone(), persistent=False)
        self.register_buffer("cos", table[:, 1::2].clone(), persistent=False)

    def forward(
        self, x: Float[Tensor, "*batch length d_k"], start: int = 0
    ) -> Float[Tensor, "*batch length d_k"]:
        """Rotate the vectors of ``x`` as those of positions ``start``, ``start + 1`` and so on.

        Raises:
            TfmrError: if the last of them lies beyond the table.
        """
        end = start + x.shape[-2]
        _check_end(end, len(self.cos))
        cos, sin = self.cos[start:end], self.sin[start:end]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
