"""The model family: BERT, GPT, T5, ViT and a current decoder-only model, from the book's blocks.

Every model is one short file. What they need beyond chapters 4 to 10 is in
:mod:`tfmr.family.blocks`; :mod:`tfmr.family.pretrained` reads the checkpoints that the Hugging Face
classes of the same models write. :mod:`tfmr.family.memory` predicts their memory in training.
"""

from tfmr.family.bert import Bert, BertConfig
from tfmr.family.gpt import GPT, GPTConfig
from tfmr.family.llama import Llama, LlamaConfig
from tfmr.family.t5 import T5, T5Config
from tfmr.family.vit import ViT, ViTConfig

__all__ = [
    "GPT",
    "T5",
    "Bert",
    "BertConfig",
    "GPTConfig",
    "Llama",
    "LlamaConfig",
    "T5Config",
    "ViT",
    "ViTConfig",
]
