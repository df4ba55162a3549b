"""Tree attention as transformers calls it, and what falls through to its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from actdeny_train.models import attention
from actdeny_train.trees import Forest, PromptTree, TokenSequence, dense_mask


class Layer(nn.Module):
    """What transformers' attention asks of the module that calls it."""

    is_causal = True
    num_key_value_groups = 2


def plant(*trees):
    """Plant trees given as lists of (shared tokens, own tokens); a branch keeps that many of the first branch's tokens."""
    planted = []
    for branches in trees:
        first = np.arange(sum(branches[0]))
        sequences = []
        for k, (num_shared, num_own) in enumerate(branches):
            ids = np.concatenate((first[:num_shared], 1000 * (k + 1) + np.arange(num_own))) if k else first
            sequences.append(TokenSequence(ids, np.arange(len(ids))[None], np.full(len(ids), -1), len(ids) - 1, k, 0))
        planted.append(PromptTree.merge(sequences))
    return Forest.plant(planted, [0] * len(planted))


def random_heads(tokens, heads, key_heads, dtype=torch.float64):
    generator = torch.Generator().manual_seed(tokens)
    shapes = [(1, heads, tokens, 16), (1, key_heads, tokens, 16), (1, key_heads, tokens, 16)]
    return [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def by_definition(query, key, value, leave, scaling):
    """Attention written out: scores, minus infinity outside the tree mask, softmax, weighted sum."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    scores = query @ key.transpose(2, 3) * (scaling if scaling is not None else query.shape[-1] ** -0.5)
    return (scores.masked_fill(~dense_mask(leave), -torch.inf).softmax(-1) @ value).transpose(1, 2)


SMALL = plant([(4, 2), (4, 1), (2, 3)], [(3, 0)])
BRANCHES = st.lists(st.tuples(st.integers(1, 120), st.integers(1, 90)), min_size=1, max_size=5)


@pytest.mark.parametrize(("heads", "key_heads"), [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_each_token_attends_to_its_ancestors_alone(heads, key_heads, scaling):
    states = random_heads(len(SMALL.ids), heads, key_heads)
    out, weights = attention.tree_attention(Layer(), *states, attention.TreeMask(SMALL, torch.float64), scaling=scaling)
    torch.testing.assert_close(out, by_definition(*states, SMALL.leave, scaling), rtol=1e-12, atol=1e-12)
    assert weights is None and out.is_contiguous()


@given(st.lists(BRANCHES, min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_forests_of_any_shape_and_their_gradients(trees):
    forest = plant(*trees)
    states = random_heads(len(forest.ids), 2, 1)
    out, _ = attention.tree_attention(Layer(), *states, attention.TreeMask(forest, torch.float64), scaling=0.4)
    expected = by_definition(*states, forest.leave, 0.4)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(0), dtype=out.dtype)
    ours, theirs = (torch.autograd.grad((y * direction).sum(), states) for y in (out, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("masked", [False, True])
def test_anything_but_a_forest_is_left_to_transformers(masked):
    query, key, value = random_heads(5, 4, 2)
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril() if masked else None
    ours, _ = attention.tree_attention(Layer(), query, key, value, mask, scaling=0.3)
    theirs, _ = sdpa_attention_forward(Layer(), query, key, value, mask, scaling=0.3)
    assert torch.equal(ours, theirs)
    key, value = key.repeat_interleave(2, dim=1), value.repeat_interleave(2, dim=1)
    causal = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3)
    torch.testing.assert_close(ours, causal.transpose(1, 2), rtol=1e-12, atol=1e-12)


def test_transformers_finds_it_by_name():
    assert AttentionInterface()[attention.NAME] is attention.tree_attention


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_gives_the_same():
    forest = plant([(300, 20), (280, 90), (300, 1)], [(40, 2)])
    states = random_heads(len(forest.ids), 4, 2, torch.float32)
    moved = [s.detach().cuda().requires_grad_() for s in states]
    expected, _ = attention.tree_attention(Layer(), *states, attention.TreeMask(forest, torch.float32), scaling=0.3)
    out, _ = attention.tree_attention(
        Layer(), *moved, attention.TreeMask(forest.to("cuda"), torch.float32), scaling=0.3
    )
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-3, atol=1e-3)
    for ours, theirs in zip(
        torch.autograd.grad(out.sum(), moved), torch.autograd.grad(expected.sum(), states), strict=True
    ):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-3)
