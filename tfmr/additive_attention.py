"""Additive attention, the first one: a small network scores each source word for each target word.

In it the decoder of a recurrent translator stopped having to remember the whole source: Bahdanau,
Cho and Bengio (2015). The masks are those of :mod:`tfmr.attention`: ``True`` keeps a key.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfmr.errors import require


class AdditiveAttention(nn.Module):
    r"""Read from a memory in proportion to how well each of its vectors answers the query.

    .. math:: e_{ij} = v^\top \tanh(s_i W + h_j U), \qquad
              \alpha_{ij} = \frac{\exp e_{ij}}{\sum_k \exp e_{ik}}, \qquad
              c_i = \sum_j \alpha_{ij} h_j

    The query :math:`s_i` is a state of the decoder, :math:`h_j` the encoder's vector at source
    position :math:`j`. Bahdanau et al. (2015), section 3.1 and appendix A.1.2, in rows times
    matrices; :func:`additive_attention_naive` is the version to read.

    Two things are done for speed. The product ``h_j U`` does not look at the query, so
    :meth:`project` computes it once per sentence. And the tanh is taken as ``2 σ(2x) − 1``, because
    a processor's σ may be ten times as fast as its tanh: the inner 2 goes into keys and queries,
    the outer 2 into ``v``, and the −1 takes the same number, the sum of ``v``, from all scores of a
    query, which their softmax does not see.

    Args:
        d_query: size of a query.
        d_memory: size of a vector of the memory.
        d_hidden: size of the vectors inside the tanh.

    Raises:
        TfmrError: if a size is not positive.
    """

    def __init__(self, d_query: int, d_memory: int, d_hidden: int) -> None:
        super().__init__()
        require(
            min(d_query, d_memory, d_hidden) >= 1,
            "additive attention needs sizes of at least 1: got "
            f"d_query={d_query}, d_memory={d_memory}, d_hidden={d_hidden}",
        )
        self.w = nn.Linear(d_query, d_hidden, bias=False)
        self.u = nn.Linear(d_memory, d_hidden, bias=False)
        # The paper starts v at zero, so that at first every word is read alike (appendix B.1).
        self.v = nn.Parameter(torch.zeros(d_hidden))

    def project(
        self, memory: Float[Tensor, "batch key d_memory"]
    ) -> Float[Tensor, "batch key d_hidden"]:
        """The keys ``2 h_j U``, to be given to every :meth:`forward` over this memory.

        Raises:
            TfmrError: if the last axis is not ``d_memory``.
        """
        require(
            memory.shape[-1] == self.u.in_features,
            f"the memory must have d_memory={self.u.in_features} numbers per position in its last "
            f"axis: got {tuple(memory.shape)}",
        )
        keys: Tensor = 2 * self.u(memory)
        return keys

    def forward(
        self,
        query: Float[Tensor, "batch query d_query"],
        keys: Float[Tensor, "batch key d_hidden"],
        memory: Float[Tensor, "batch key d_memory"],
        mask: Bool[Tensor, "batch key"],
    ) -> tuple[Float[Tensor, "batch query d_memory"], Float[Tensor, "batch query key"]]:
        """What each query reads, and the weights with which it reads it.

        Args:
            query: states of the decoder.
            keys: what :meth:`project` made of ``memory``.
            memory: the encoder's vectors.
            mask: ``True`` where the memory holds a real token, at least one in each row.

        Raises:
            TfmrError: if the shapes do not fit each other.
        """
        require(
            query.shape[-1] == self.w.in_features,
            f"a query must have d_query={self.w.in_features} numbers in its last axis: got "
            f"{tuple(query.shape)}",
        )
        require(
            keys.shape[:2] == memory.shape[:2] == mask.shape and len(query) == len(keys),
            "queries, keys, memory and mask belong to the same sentences: got query "
            f"{tuple(query.shape)}, keys {tuple(keys.shape)}, memory {tuple(memory.shape)}, mask "
            f"{tuple(mask.shape)}; the keys are project(memory), the mask is (batch, key)",
        )
        inside = 2 * self.w(query)[:, :, None] + keys[:, None]  # (batch, query, key, d_hidden)
        scores = inside.sigmoid_() @ (2 * self.v)
        weights = scores.masked_fill(~mask[:, None], -math.inf).softmax(dim=-1)
        return weights @ memory, weights


def additive_attention_naive(
    attention: AdditiveAttention,
    query: Float[Tensor, "batch query d_query"],
    memory: Float[Tensor, "batch key d_memory"],
    mask: Bool[Tensor, "batch key"],
) -> tuple[Float[Tensor, "batch query d_memory"], Float[Tensor, "batch query key"]]:
    """What ``attention`` computes, in the loops of the equations: for each query, for each key.

    Raises:
        TfmrError: if a sentence has no real token.
    """
    require(
        bool(mask.any(dim=1).all()),
        "every query must be allowed to read at least one key: the mask hides a whole sentence, "
        "whose softmax would be 0/0 (NaN)",
    )
    weights = query.new_zeros(*query.shape[:2], memory.shape[1])
    for row in range(len(query)):
        real = mask[row].nonzero().flatten().tolist()
        for i, s in enumerate(query[row]):
            scores = [
                attention.v @ torch.tanh(attention.w(s) + attention.u(memory[row, j])) for j in real
            ]
            weights[row, i, real] = torch.stack(scores).softmax(dim=0)
    return weights @ memory, weights
