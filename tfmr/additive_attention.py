"""Additive attention (Bahdanau, Cho and Bengio, 2015): a small network computes each score.

Masks are those of :mod:`tfmr.attention`: ``True`` marks a key that may be attended to.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfmr.attention import check_mask
from tfmr.checks import check_sizes, check_tensor
from tfmr.errors import TfmrError, require


class AdditiveAttention(nn.Module):
    r"""Attention whose scores come from a network with one hidden layer.

    .. math:: e_{ij} = v^\top \tanh(s_i W + h_j U), \qquad
              \alpha_{ij} = \frac{\exp e_{ij}}{\sum_k \exp e_{ik}}, \qquad
              c_i = \sum_j \alpha_{ij} h_j

    The query :math:`s_i` is a state of the decoder, and :math:`h_j` is the encoder output at source
    position :math:`j`, which is also the value. Bahdanau et al. (2015), section 3.1 and appendix
    A.1.2. :func:`additive_attention_naive` computes the same result in loops.

    The keys :math:`h_j U` do not depend on the query, so :meth:`project_keys` computes them once
    per sentence.

    Args:
        d_query: size of a query.
        d_memory: size of an encoder output.
        d_hidden: size of the hidden layer.

    Raises:
        TfmrError: if a size is not positive.
    """

    def __init__(self, d_query: int, d_memory: int, d_hidden: int) -> None:
        super().__init__()
        check_sizes(d_query=d_query, d_memory=d_memory, d_hidden=d_hidden)
        self.w = nn.Linear(d_query, d_hidden, bias=False)
        self.u = nn.Linear(d_memory, d_hidden, bias=False)
        # Zero as in appendix B.1 of the paper: the initial attention weights are uniform.
        self.v = nn.Parameter(torch.zeros(d_hidden))

    def project_keys(
        self, memory: Float[Tensor, "batch key d_memory"]
    ) -> Float[Tensor, "batch key d_hidden"]:
        """The keys ``h_j U`` for ``memory``, which :meth:`forward` needs.

        Raises:
            TfmrError: if ``memory`` is not ``(batch, key, d_memory)``.
        """
        check_tensor(memory, "memory", self.u.weight)
        if memory.dim() != 3 or memory.shape[-1] != self.u.in_features:
            raise TfmrError(
                f"the memory must be (batch, key, d_memory={self.u.in_features}): got "
                f"{tuple(memory.shape)}"
            )
        keys: Tensor = self.u(memory)
        return keys

    def forward(
        self,
        query: Float[Tensor, "batch query d_query"],
        keys: Float[Tensor, "batch key d_hidden"],
        memory: Float[Tensor, "batch key d_memory"],
        mask: Bool[Tensor, "batch key"],
    ) -> tuple[Float[Tensor, "batch query d_memory"], Float[Tensor, "batch query key"]]:
        """The context vector and the attention weights of each query.

        Args:
            query: states of the decoder.
            keys: the result of :meth:`project_keys` for ``memory``.
            memory: the encoder outputs.
            mask: ``True`` at real tokens, of which each sentence needs at least one.

        Raises:
            TfmrError: if the shapes do not match, or the mask is not boolean.
        """
        check_tensor(query, "query", self.w.weight)
        check_mask(mask)
        if query.dim() != 3 or query.shape[-1] != self.w.in_features:
            raise TfmrError(
                f"the queries must be (batch, query, d_query={self.w.in_features}): got "
                f"{tuple(query.shape)}"
            )
        if (
            keys.dim() != 3
            or keys.shape[-1] != self.w.out_features
            or not keys.shape[:2] == memory.shape[:2] == mask.shape
            or len(query) != len(keys)
        ):
            raise TfmrError(
                "queries, keys, memory and mask must belong to the same sentences: got query "
                f"{tuple(query.shape)}, keys {tuple(keys.shape)}, memory {tuple(memory.shape)}, "
                f"mask {tuple(mask.shape)}; keys are project_keys(memory), the mask is (batch, key)"
            )
        hidden = torch.tanh(self.w(query)[:, :, None] + keys[:, None])  # (batch, query, key, d_hid)
        scores = (hidden @ self.v).masked_fill(~mask[:, None], -math.inf)
        weights = scores.softmax(dim=-1)
        return weights @ memory, weights


def additive_attention_naive(
    attention: AdditiveAttention,
    query: Float[Tensor, "batch query d_query"],
    memory: Float[Tensor, "batch key d_memory"],
    mask: Bool[Tensor, "batch key"],
) -> tuple[Float[Tensor, "batch query d_memory"], Float[Tensor, "batch query key"]]:
    """The result of ``attention``, computed as in the equations, one query and one key at a time.

    Raises:
        TfmrError: if the mask does not fit the memory, or a sentence has no real token.
    """
    require(
        mask.shape == memory.shape[:2] and len(query) == len(memory),
        "the mask must be (batch, key), and queries and memory must belong to the same sentences: "
        f"got query {tuple(query.shape)}, memory {tuple(memory.shape)}, mask {tuple(mask.shape)}",
    )
    require(
        bool(mask.any(dim=1).all()),
        "each sentence needs at least one key that may be attended to: the mask hides a whole "
        "sentence, whose softmax would be 0/0 (NaN)",
    )
    weights = query.new_zeros(*query.shape[:2], memory.shape[1])
    for row in range(len(query)):
        visible = mask[row].nonzero().flatten().tolist()
        for i, s in enumerate(query[row]):
            scores = [
                attention.v @ torch.tanh(attention.w(s) + attention.u(memory[row, j]))
                for j in visible
            ]
            weights[row, i, visible] = torch.stack(scores).softmax(dim=0)
    return weights @ memory, weights
