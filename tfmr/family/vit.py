"""ViT: an encoder whose tokens are the patches of an image."""

from dataclasses import dataclass
from pathlib import Path

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.checks import check_tensor
from tfmr.config import Activation, BlockConfig, Norm, check_positive
from tfmr.encoder import Encoder
from tfmr.errors import TfmrError, require
from tfmr.family.pretrained import Rename, copy_weights, read_checkpoint
from tfmr.layers import Dropout


@dataclass(frozen=True)
class ViTConfig(BlockConfig):
    """The hyperparameters of :class:`ViT`; the defaults are those of ViT-B/16.

    Dosovitskiy et al. (2021), table 1.

    Raises:
        TfmrError: if a value is out of range, or the patches do not tile the image.
    """

    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    dropout: float = 0.0
    norm: Norm = "pre"
    activation: Activation = "gelu"
    eps: float = 1e-12
    n_layers: int = 12
    """Number of encoder blocks."""
    image_size: int = 224
    """Height and width of the images in pixels."""
    patch_size: int = 16
    """Height and width of the patches in pixels."""
    channels: int = 3
    """Numbers per pixel."""
    n_classes: int = 1000
    """Number of classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("n_layers", "image_size", "patch_size", "channels", "n_classes")
        check_positive(self, *names)
        require(
            self.image_size % self.patch_size == 0,
            "image_size must be divisible by patch_size, so that the patches tile the image: got "
            f"image_size={self.image_size}, patch_size={self.patch_size}",
        )

    @property
    def n_patches(self) -> int:
        """Number of patches of an image."""
        return (self.image_size // self.patch_size) ** 2


class ViT(nn.Module):
    """The encoder of chapter 8, pre-norm with GELU, on patches of an image and a class token.

    Dosovitskiy et al. (2021), section 3.1.

    Args:
        config: the hyperparameters.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embedding = nn.Linear(config.channels * config.patch_size**2, config.d_model)
        self.class_token = nn.Parameter(torch.zeros(config.d_model))
        self.position = nn.Parameter(torch.zeros(config.n_patches + 1, config.d_model))
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, config.n_layers)
        self.output = nn.Linear(config.d_model, config.n_classes)
        nn.init.trunc_normal_(self.class_token, std=0.02)
        nn.init.trunc_normal_(self.position, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def patches(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch patches pixels"]:
        """Cut the images into patches, row by row: one vector of pixels per patch.

        Raises:
            TfmrError: if the images have another number of channels or another size.
        """
        check_tensor(images, "images", self.patch_embedding.weight)
        c = self.config
        if images.dim() != 4 or images.shape[1:] != (c.channels, c.image_size, c.image_size):
            raise TfmrError(
                f"images must be (batch, {c.channels}, {c.image_size}, {c.image_size}): got "
                f"{tuple(images.shape)}; add missing axes with unsqueeze, or resize the images"
            )
        return rearrange(
            images,
            "batch channels (rows height) (columns width) -> "
            "batch (rows columns) (channels height width)",
            height=c.patch_size,
            width=c.patch_size,
        )

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        """One logit per class, from the encoder output at the class token.

        Raises:
            TfmrError: as :meth:`patches`.
        """
        x = self.patch_embedding(self.patches(images))
        class_token = self.class_token.expand(len(x), 1, -1)
        x = torch.cat([class_token, x], dim=1) + self.position
        return self.scores(self.encoder(self.dropout(x)))

    @property
    def final_stack(self) -> Encoder:
        """The stack whose output :meth:`scores` maps to logits."""
        return self.encoder

    def scores(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch classes"]:
        """One logit per class, from the vector of the class token, which is the first."""
        logits: Tensor = self.output(x[:, 0])
        return logits

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "ViT":
        """The model in a folder that ``ViTForImageClassification.save_pretrained`` wrote.

        Raises:
            TfmrError: if a file is missing, is not a safetensors checkpoint of a ViT, or does not
                fit its configuration.
        """
        config, tensors = read_checkpoint(folder, "vit")
        config.expect(hidden_act="gelu", qkv_bias=True, is_encoder_decoder=False)
        settings = ViTConfig(
            d_model=config["hidden_size"],
            n_heads=config["num_attention_heads"],
            d_ff=config["intermediate_size"],
            dropout=config["hidden_dropout_prob"],
            n_layers=config["num_hidden_layers"],
            image_size=config["image_size"],
            patch_size=config["patch_size"],
            channels=config["num_channels"],
            n_classes=len(tensors.get("classifier.bias", ())),
            eps=config["layer_norm_eps"],
        )
        config.finish("encoder_stride", "pooler_act", "pooler_output_size", "tie_word_embeddings")
        model = cls(settings)
        # A convolution whose stride is its size is a linear layer on patches.
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        patch = "vit.embeddings.patch_embeddings.projection.weight"
        for name, ours in [
            (patch, "patch_embedding.weight"),
            ("vit.embeddings.cls_token", "class_token"),
            ("vit.embeddings.position_embeddings", "position"),
        ]:
            if name in tensors and tensors[name].numel() == shapes[ours].numel():
                tensors[name] = tensors[name].reshape(shapes[ours])
        return copy_weights(model, tensors, NAMES, folder)


NAMES = [
    Rename(r"^vit\.embeddings\.patch_embeddings\.projection", "patch_embedding"),
    Rename(r"^vit\.embeddings\.cls_token", "class_token"),
    Rename(r"^vit\.embeddings\.position_embeddings", "position"),
    Rename(r"^vit\.encoder\.layer", "encoder.blocks"),
    Rename(r"^vit\.layernorm", "encoder.norm"),
    Rename(r"^classifier", "output"),
    Rename(r"attention\.attention\.query", "attention.w_q"),
    Rename(r"attention\.attention\.key", "attention.w_k"),
    Rename(r"attention\.attention\.value", "attention.w_v"),
    Rename(r"attention\.output\.dense", "attention.w_o"),
    Rename(r"intermediate\.dense", "feed_forward.expand"),
    Rename(r"output\.dense", "feed_forward.contract"),
    Rename(r"layernorm_before", "residuals.0.norm"),
    Rename(r"layernorm_after", "residuals.1.norm"),
]
"""Names of weights in the checkpoints of Hugging Face, and here."""
