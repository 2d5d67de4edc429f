"""CTranslate2, a library in C++ that only decodes, with the weights of one of tfmr's models."""

from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from benchmarks.peers.peer import TOLERANCE, attentions
from tfmr.config import TransformerConfig
from tfmr.data.batches import Batch
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, EOS, PAD, UNK

Kind = Literal["fp32", "int8"]
COMPUTE: dict[Kind, str] = {"fp32": "float32", "int8": "int8"}
"""The types in which it computes, and their names in the library."""
TOLERANCES: dict[Kind, float] = {"fp32": TOLERANCE, "int8": 0.5}
"""The largest mean difference of a token's log-probability from tfmr's, in nats."""


class CTranslate2:
    """``ctranslate2.Translator`` on a CPU, with as many threads as PyTorch has.

    Args:
        own: the model whose weights it gets; a Transformer as in the paper, pre- or post-norm.
        kind: the type in which it stores and multiplies the weights.

    Raises:
        TfmrError: if the package is missing, or it cannot compute the model.
    """

    title: ClassVar[str] = "CTranslate2"

    def __init__(self, own: Transformer, kind: Kind) -> None:
        try:
            import ctranslate2
        except ImportError as error:
            raise TfmrError(
                f"the peer ctranslate2 needs the package of this name ({error}): install it with "
                "pip install -e '.[bench]', or select other --peers"
            ) from error
        require(
            own.config.position == "sinusoidal" and own.config.activation == "relu",
            "CTranslate2 is given models with sinusoidal positions and ReLU, got "
            f"{own.config.position} and {own.config.activation}",
        )
        self.config: TransformerConfig = own.config
        self.kind = kind
        with TemporaryDirectory() as folder:
            specification = convert(own)
            specification.validate()
            specification.optimize()
            specification.save(folder)
            self.translator = ctranslate2.Translator(
                folder, compute_type=COMPUTE[kind], intra_threads=torch.get_num_threads()
            )

    def search(
        self, source: Int[Tensor, "batch source"], steps: int, beam: int
    ) -> Int[Tensor, "batch steps"]:
        """Generate exactly ``steps`` tokens per sentence, greedy if ``beam`` is 1."""
        results = self.translator.translate_batch(
            _names(source),
            beam_size=beam,
            min_decoding_length=steps,
            max_decoding_length=steps,
        )
        return torch.tensor([[int(token) for token in each.hypotheses[0]] for each in results])

    @torch.no_grad()
    def check_agreement(self, own: Transformer, batch: Batch) -> None:
        """Raise :class:`TfmrError` unless its log-probabilities of the targets are those of tfmr.

        Args:
            own: the model that it was converted from.
            batch: sentence pairs.
        """
        scores = own.eval()(batch.source, batch.target_in).log_softmax(-1)
        expected = scores.gather(-1, batch.target_out[..., None])[..., 0]
        targets = [names[:-1] for names in _names(batch.target_out)]  # it adds EOS itself
        found = self.translator.score_batch(_names(batch.source), targets)
        errors = [
            abs(a - b)
            for row, result in zip(expected.tolist(), found, strict=True)
            for a, b in zip(row, result.log_probs, strict=False)  # a row has padding at its end
        ]
        require(
            mean(errors) < TOLERANCES[self.kind],
            f"{self.title} in {self.kind}: expected tfmr's log-probabilities within "
            f"{TOLERANCES[self.kind]}: the mean difference is {mean(errors):.3g}",
        )


def convert(own: Transformer) -> Any:
    """The specification of ``own`` for CTranslate2, in which the name of a token is its id."""
    from ctranslate2.specs import TransformerSpec

    config = own.config
    specification = TransformerSpec.from_config(
        (config.n_encoder, config.n_decoder), config.n_heads, pre_norm=config.norm == "pre"
    )
    assert own.position is not None
    table: Any = own.position.table
    sides: list[tuple[Any, Any, Any]] = [
        (specification.encoder, own.encoder, own.source_embedding),
        (specification.decoder, own.decoder, own.target_embedding),
    ]
    for side, stack, embedding in sides:
        embeddings = side.embeddings
        for each in embeddings if isinstance(embeddings, list) else [embeddings]:
            each.weight = _numbers(embedding.weight)
        side.scale_embeddings = True
        side.position_encodings.encodings = _numbers(table)
        if config.norm == "pre":
            _norm(side.layer_norm, stack.norm)
        for layer, block in zip(side.layer, stack.blocks, strict=True):
            norms = [residual.norm for residual in block.residuals]
            own_attentions = attentions(block)
            theirs = [layer.self_attention, *([layer.attention] if len(norms) == 3 else [])]
            for module, attention, norm in zip(theirs, own_attentions, norms[:-1], strict=True):
                q, k, v = attention.w_q, attention.w_k, attention.w_v
                fused = [[q, k, v]] if module is layer.self_attention else [[q], [k, v]]
                for linear, projections in zip(
                    module.linear, [*fused, [attention.w_o]], strict=True
                ):
                    _linear(linear, projections)
                _norm(module.layer_norm, norm)
            _linear(layer.ffn.linear_0, [block.feed_forward.expand])
            _linear(layer.ffn.linear_1, [block.feed_forward.contract])
            _norm(layer.ffn.layer_norm, norms[-1])
    _linear(specification.decoder.projection, [own.output])
    specification.register_source_vocabulary([str(id) for id in range(config.source_vocab)])
    specification.register_target_vocabulary([str(id) for id in range(config.target_vocab)])
    specification.config.bos_token = specification.config.decoder_start_token = str(BOS)
    specification.config.eos_token, specification.config.unk_token = str(EOS), str(UNK)
    specification.config.layer_norm_epsilon = config.eps
    return specification


def _numbers(tensor: Tensor) -> Any:
    return tensor.detach().float().numpy()


def _linear(linear: Any, projections: list[Any]) -> None:
    """Set one layer to several projections of the same input."""
    linear.weight = _numbers(torch.cat([each.weight for each in projections]))
    biases = [each.bias for each in projections if each.bias is not None]
    if biases:
        linear.bias = _numbers(torch.cat(biases))


def _norm(theirs: Any, norm: Any) -> None:
    theirs.gamma, theirs.beta = _numbers(norm.weight), _numbers(norm.bias)


def _names(ids: Int[Tensor, "batch length"]) -> list[list[str]]:
    """The names of the tokens of each row, without padding."""
    return [[str(id) for id in row if id != PAD] for row in ids.tolist()]
