"""The systems that tfmr is compared with, all with the same methods."""

from benchmarks.peers.peer import Peer
from tfmr.config import TransformerConfig
from tfmr.errors import require

__all__ = ["PEERS", "Peer", "build"]

PEERS = ("torch", "marian", "x-transformers")
"""Their names on the command line."""


def build(name: str, config: TransformerConfig, dropout: float) -> Peer:
    """The peer ``name`` with the sizes of ``config``; imports its library.

    Raises:
        TfmrError: if there is no such peer, or its number of parameters is wrong.
    """
    require(name in PEERS, f"expected one of the peers {', '.join(PEERS)}, got {name!r}")
    if name == "torch":
        from benchmarks.peers.torch_nn import TorchNN

        peer: Peer = TorchNN(config, dropout)
    elif name == "marian":
        from benchmarks.peers.marian import Marian

        peer = Marian(config, dropout)
    else:
        from benchmarks.peers.xt import XTransformers

        peer = XTransformers(config, dropout)
    peer.check_size()
    return peer
