"""The law of the prompt tree: every leaf is its own sequence, no more and no less."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_mask

from actdeny_train.trees import AttentionBlocks, Forest, PromptTree, TokenSequence, dense_mask, flex_mask


def sequence(ids, answer_start, question=0, choice=0, shift=0):
    ids = np.array(ids, dtype=np.int64)
    visual = np.where(ids == 9, np.cumsum(ids == 9) - 1, -1)
    positions = np.vstack([np.arange(len(ids)) + shift, np.arange(len(ids)) // 2])
    return TokenSequence(ids, positions, visual, answer_start, question, choice)


def path_of(tree, token):
    """Tokens from the root to ``token``, by parents alone."""
    path = []
    while token >= 0:
        path.append(token)
        token = int(tree.parent[token])
    return path[::-1]


@st.composite
def sequences(draw):
    count = draw(st.integers(1, 8))
    out = []
    for question in range(count):
        # few distinct ids, so that prefixes are often shared, whole sequences repeat, and one is a prefix of another
        ids = draw(st.lists(st.sampled_from([1, 2, 9]), min_size=2, max_size=9))
        out.append(
            sequence(ids, draw(st.integers(1, len(ids) - 1)), question, shift=draw(st.sampled_from([0, 0, 0, 3])))
        )
    return out


@given(sequences())
@settings(max_examples=300, deadline=None)
def test_every_leaf_is_its_sequence(seqs):
    tree = PromptTree.merge(seqs)
    mask = dense_mask(torch.from_numpy(tree.leave)).numpy()
    for seq, leaf in zip(seqs, tree.leaves, strict=True):
        path = path_of(tree, int(leaf.tokens[-1]))
        np.testing.assert_array_equal(tree.ids[path], seq.ids)
        np.testing.assert_array_equal(tree.positions[:, path], seq.positions)
        np.testing.assert_array_equal(tree.visual[path], seq.visual)
        np.testing.assert_array_equal(path[seq.answer_start :], leaf.tokens)
        for place, token in enumerate(path):
            assert set(np.flatnonzero(mask[token])) == set(path[: place + 1])


@given(sequences())
@settings(max_examples=100, deadline=None)
def test_no_prefix_is_stored_twice(seqs):
    tree = PromptTree.merge(seqs)
    paths = set()
    for token in range(len(tree)):
        path = path_of(tree, token)
        paths.add((tree.ids[path].tobytes(), tree.positions[:, path].tobytes()))
    assert len(paths) == len(tree)


def test_answers_1_10_and_11_share_their_first_token_and_differ_by_the_end():
    end = 7
    seqs = [
        sequence([5, 5, 1, end], 2, choice=0),
        sequence([5, 5, 1, 0, end], 2, choice=1),
        sequence([5, 5, 1, 1, end], 2, choice=2),
    ]
    tree = PromptTree.merge(seqs)
    assert tree.ids.tolist() == [5, 5, 1, end, 0, end, 1, end]
    assert tree.parent.tolist() == [-1, 0, 1, 2, 2, 4, 2, 6]
    assert tree.leave.tolist() == [8, 8, 8, 4, 6, 6, 8, 8]
    forest = Forest.plant([tree], [0])
    assert forest.predict_rows.tolist() == [1, 2, 4, 6]
    assert forest.answer_ids.tolist() == [1, end, 1, 0, end, 1, 1, end]
    assert forest.answer_source.tolist() == [0, 1, 0, 1, 2, 0, 1, 3]
    assert forest.answer_leaf.tolist() == [0, 0, 1, 1, 1, 2, 2, 2]


def test_positions_that_differ_keep_tokens_apart():
    tree = PromptTree.merge([sequence([1, 2, 3], 2), sequence([1, 2, 3], 2, shift=4)])
    assert len(tree) == 6


def test_a_forest_keeps_its_trees_apart_and_counts_visual_tokens_through():
    one = PromptTree.merge([sequence([1, 9, 9, 2, 3], 3, question=0), sequence([1, 9, 9, 4, 3], 3, question=1)])
    two = PromptTree.merge([sequence([9, 2, 3], 1, question=2)])
    forest = Forest.plant([one, two], [2, 1])
    assert forest.visual_rows.tolist() == [1, 2, 7]
    assert forest.visual_index.tolist() == [0, 1, 2]
    assert forest.tree_sizes == (7, 3)
    mask = dense_mask(forest.leave)
    assert not mask[7:, :7].any() and not mask[:7, 7:].any()
    assert forest.leaf_question.tolist() == [0, 1, 2]


def test_flex_mask_is_the_dense_mask():
    tree = PromptTree.merge([sequence([1, 9, 2, k, 3], 3, choice=k) for k in range(4)])
    leave = Forest.plant([tree, tree], [1, 1]).leave
    block = flex_mask(leave)
    full = create_mask(block.mask_mod, 1, 1, len(leave), len(leave), device="cpu")
    assert torch.equal(full[0, 0], dense_mask(leave))


def test_a_sequence_without_an_answer_is_refused():
    with pytest.raises(AssertionError, match="answer starts at 3 of 3 tokens"):
        sequence([1, 2, 3], 3)


@given(st.lists(sequences(), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_attention_in_blocks_is_attention_under_the_dense_mask(many, seed):
    trees = [PromptTree.merge(seqs) for seqs in many]
    forest = Forest.plant(trees, [int(tree.visual.max()) + 1 for tree in trees])
    generator = torch.Generator().manual_seed(seed)
    n = len(forest.ids)
    query = torch.randn(4, n, 8, dtype=torch.float64, generator=generator)
    key, value = torch.randn(2, 2, n, 8, dtype=torch.float64, generator=generator)
    ours = AttentionBlocks.cut(forest.leave, torch.float64).attend(query, key, value, scale=0.3)
    scores = (query @ key.repeat_interleave(2, 0).transpose(1, 2) * 0.3).masked_fill(
        ~dense_mask(forest.leave), -torch.inf
    )
    torch.testing.assert_close(ours, scores.softmax(-1) @ value.repeat_interleave(2, 0), rtol=1e-12, atol=1e-12)


def test_blocks_of_a_deep_tree_repeat_no_more_keys_than_they_need():
    prompt = list(range(10, 1210))
    tree = PromptTree.merge([sequence([*prompt, 2000 + k, *range(3000, 3100), 1], 1300, choice=k) for k in range(8)])
    blocks = AttentionBlocks.cut(Forest.plant([tree], [0]).leave, torch.float32)
    assert blocks.bias.shape[2] == 1302 // 8
    assert blocks.bias.shape[3] <= 1302 + 1302 // 8
