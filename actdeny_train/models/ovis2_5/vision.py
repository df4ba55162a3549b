"""The vision tower of Ovis2.5: SigLIP 2 at native resolution with learned and rotary positions; frames see themselves alone.

Shapes: N patches of all frames (four neighbours that become one visual token lie together), C width, H heads, d width of a
head. Clips follow each other, their frames too; a grid (t, h, w) counts the frames, rows and columns of a clip's patches.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.vision_utils import get_vision_position_ids, get_vision_window_index

from actdeny_train.models.ovis2_5.config import VisionConfig

ROPE_THETA = 10000.0


class Embeddings(nn.Module):
    """Patches to vectors, with learned positions fitted to each clip's grid."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.stride = config.hidden_stride
        self.patch_embedding = nn.Conv2d(
            config.num_channels, config.hidden_size, kernel_size=config.patch_size, stride=config.patch_size
        )
        self.side = config.image_size // config.patch_size
        if config.preserve_original_pe:
            self.position_embedding = nn.Embedding(self.side**2, config.hidden_size)

    def forward(self, pixel_values: Tensor, grids: Sequence[Sequence[int]]) -> Tensor:
        """Return (N, C) of ``pixel_values`` (N, channels * patch * patch)."""
        weight = self.patch_embedding.weight
        embeds = functional.linear(pixel_values.to(weight.dtype), weight.flatten(1), self.patch_embedding.bias)
        if hasattr(self, "position_embedding"):
            embeds = embeds + torch.cat([self._positions(h, w).repeat(t, 1) for t, h, w in grids]).to(embeds.dtype)
        return embeds

    def _positions(self, h: int, w: int) -> Tensor:
        """Return the (h * w, C) learned positions of one frame.

        Bicubic interpolation as two matrix products: its own backward pass on CUDA adds in any order.
        """
        weight = self.position_embedding.weight
        table = weight.to(torch.promote_types(weight.dtype, torch.float32)).view(self.side, self.side, -1)
        rows, columns = _resampling(self.side, h, table), _resampling(self.side, w, table)
        fitted = torch.einsum("hs,wt,stc->hwc", rows, columns, table)
        s = self.stride
        return fitted.view(h // s, s, w // s, s, -1).transpose(1, 2).reshape(h * w, -1).to(weight.dtype)


def _resampling(side: int, size: int, like: Tensor) -> Tensor:
    """Return the (size, side) weights of bicubic interpolation along one axis."""
    unit = torch.eye(side, dtype=like.dtype, device=like.device).view(1, side, side, 1)
    return functional.interpolate(unit, size=(size, 1), mode="bicubic", align_corners=False)[0, :, :, 0].T


class Attention(nn.Module):
    """Self-attention within segments of the row of patches."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, hidden: Tensor, lengths: Sequence[int], rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return (N, C). ``lengths`` are the patches of each segment, in order."""
        heads = (len(hidden), self.num_heads, -1)
        query, key, value = (proj(hidden).view(heads) for proj in (self.q_proj, self.k_proj, self.v_proj))
        if rotation is not None:
            query, key = (_rotate(states, *rotation).to(value.dtype) for states in (query, key))
        out, start = [], 0
        for length, run in itertools.groupby(lengths):  # segments of one length that lie together are one batch
            count = len(list(run))
            stop = start + count * length
            part = (s[start:stop].unflatten(0, (count, length)).transpose(1, 2) for s in (query, key, value))
            out.append(functional.scaled_dot_product_attention(*part).transpose(1, 2).flatten(2).flatten(0, 1))
            start = stop
        assert start == len(hidden), f"segments of {start} patches, but {len(hidden)} patches"
        return self.out_proj(torch.cat(out))


def _rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate (N, H, d) by (N, d / 2) angles, in float32 at least; the first half of a head goes with the second."""
    states = states.to(torch.promote_types(states.dtype, torch.float32))
    first, second = states.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class FeedForward(nn.Module):
    """Two layers with the config's activation between them."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.activation = ACT2FN[config.hidden_act]
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.fc2(self.activation(self.fc1(hidden)))


class Block(GradientCheckpointingLayer):
    """One block: attention and feed-forward, each behind its norm."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self_attn = Attention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, hidden: Tensor, lengths: Sequence[int], rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        hidden = hidden + self.self_attn(self.layer_norm1(hidden), lengths, rotation)
        return hidden + self.mlp(self.layer_norm2(hidden))


class Encoder(nn.Module):
    """The blocks one after the other; only the last one's output is kept."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))

    def forward(self, hidden: Tensor, grid_thws: Tensor) -> Tensor:
        """Return (N, C) after the last block."""
        config = self.config
        rotation = self._rotation(grid_thws, hidden) if config.use_rope else None
        frames = [h * w for t, h, w in grid_thws.tolist() for _ in range(t)]
        whole = config.whole_frame_blocks()
        if whole >= set(range(len(self.layers))):
            for layer in self.layers:
                hidden = layer(hidden, frames, rotation)
            return hidden
        order, windows = self._windows(grid_thws)
        hidden = hidden[order]
        if rotation is not None:
            rotation = (rotation[0][order], rotation[1][order])
        for i, layer in enumerate(self.layers):
            hidden = layer(hidden, frames if i in whole else windows, rotation)
        return hidden[torch.argsort(order)]

    def _rotation(self, grid_thws: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine, (N, d / 2) each in float32: the first half of the angles are rows, the second columns."""
        width = self.config.hidden_size // self.config.num_attention_heads // 2
        steps = torch.arange(0, width, 2, dtype=torch.float32, device=hidden.device)
        frequencies = 1.0 / ROPE_THETA ** (steps / width)
        places = get_vision_position_ids(grid_thws.to(hidden.device), self.config.hidden_stride)
        angles = (places[:, :, None].to(torch.float32) * frequencies).flatten(1)
        return angles.cos(), angles.sin()

    def _windows(self, grid_thws: Tensor) -> tuple[Tensor, list[int]]:
        """Return the (N,) order in which the patches of a window lie together, frame after frame, and each window's length."""
        config = self.config
        tokens, ends = get_vision_window_index(
            grid_thws,
            spatial_merge_size=config.hidden_stride,
            window_size=config.window_size,
            patch_size=config.patch_size,
        )
        each = config.hidden_stride**2
        order = (tokens[:, None] * each + torch.arange(each, device=tokens.device)).flatten()
        return order.to(grid_thws.device), ends.diff().tolist()


class VisionTransformer(nn.Module):
    """Embeddings and encoder. ``post_layernorm`` lies in the checkpoints, but Ovis2.5 takes what comes before it."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, pixel_values: Tensor, grid_thws: Tensor) -> Tensor:
        """Return (N, C), without the last norm."""
        return self.encoder(self.embeddings(pixel_values, grid_thws.tolist()), grid_thws)


class VisionTower(nn.Module):
    """The tower under the name that the checkpoints give it."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.vision_model = VisionTransformer(config)

    def forward(self, pixel_values: Tensor, grid_thws: Tensor) -> Tensor:
        """Return (N, C) of ``pixel_values`` (N, channels * patch * patch) and ``grid_thws`` (clips, 3)."""
        return self.vision_model(pixel_values, grid_thws)
