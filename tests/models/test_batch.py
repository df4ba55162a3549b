"""Clips and questions -> one forest: which leaf belongs to which question, and what the encoder gets."""

import numpy as np
import pytest
import torch

from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.heads import LanguageHead


@pytest.fixture
def processor(tiny_family):
    return tiny_family().processor


@pytest.fixture
def asked_for(make_frames, make_question):
    """Two clips, the second with two questions."""
    first = make_question("Which action?", ["1", "2", "10"], target=2)
    second, third = make_question("Is it archery?", ["yes", "no"], target=1), make_question("Which?", ["1", "2"])

    def make(how):
        return [how([make_frames(4)], [first]), how([make_frames(2, seed=1)], [second, third])]

    return make


def answers(processor, forest):
    """What each leaf says, from the forest's tokens alone."""
    return [
        processor.decode(forest.answer_ids[forest.answer_leaf == leaf].tolist()) for leaf in range(forest.num_leaves)
    ]


def test_scoring_has_a_leaf_for_every_answer(processor, asked_for):
    batch = Batch.of(processor, asked_for(Asked.for_scoring))
    assert [q.text for q in batch.questions] == ["Which action?", "Is it archery?", "Which?"]
    assert batch.forest.leaf_question.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert batch.forest.leaf_choice.tolist() == [0, 1, 2, 0, 1, 0, 1]
    said = [
        batch.questions[q].answers[c] for q, c in zip(batch.forest.leaf_question, batch.forest.leaf_choice, strict=True)
    ]
    assert answers(processor, batch.forest) == [f"{answer}<|im_end|>" for answer in said]


def test_training_has_a_leaf_for_every_right_answer(processor, asked_for):
    batch = Batch.of(processor, asked_for(Asked.for_training))
    assert batch.forest.leaf_question.tolist() == [0, 1, 2]
    assert batch.forest.leaf_choice.tolist() == [q.target for q in batch.questions] == [2, 1, 0]
    assert answers(processor, batch.forest) == ["10<|im_end|>", "no<|im_end|>", "1<|im_end|>"]


def test_clips_follow_each_other_in_the_order_of_their_trees(processor, make_frames, make_question):
    question = make_question("Which clip?", ["1", "2"])
    clips = [make_frames(count, seed=count) for count in (4, 2, 6)]
    batch = Batch.of(processor, [Asked.for_training(clips[:2], [question]), Asked.for_training(clips[2:], [question])])
    alone = [processor.visual(clip) for clip in clips]
    assert batch.visual.num_tokens == sum(v.num_tokens for v in alone) == len(batch.forest.visual_rows)
    torch.testing.assert_close(
        batch.visual.inputs["pixel_values_videos"],
        torch.cat([v.inputs["pixel_values_videos"] for v in alone]),
        rtol=0,
        atol=0,
    )
    assert batch.forest.visual_index.tolist() == list(range(batch.visual.num_tokens))
    assert batch.forest.ids[batch.forest.visual_rows].unique().numel() == 1
    in_second_tree = batch.forest.visual_rows >= batch.forest.tree_sizes[0]
    assert int(in_second_tree.sum()) == alone[2].num_tokens


def test_a_batch_moves_with_everything_in_it(processor, asked_for):
    batch = Batch.of(processor, asked_for(Asked.for_training)).to("meta")
    tensors = [v for v in vars(batch.forest).values() if isinstance(v, torch.Tensor)] + list(
        batch.visual.inputs.values()
    )
    assert len(tensors) == 13 and {t.device.type for t in tensors} == {"meta"}


def test_a_leaf_sums_its_tokens(processor, asked_for):
    forest = Batch.of(processor, asked_for(Asked.for_scoring)).forest
    tokens = -torch.arange(1.0, forest.num_answer_tokens + 1, dtype=torch.float64)
    expected = [float(tokens[forest.answer_leaf == leaf].sum()) for leaf in range(forest.num_leaves)]
    np.testing.assert_allclose(LanguageHead().leaf_logprobs(forest, tokens), expected)


def test_log_probabilities_of_a_half_precision_model_are_float32(tiny_family, asked_for):
    """A score of bfloat16 would have three digits; the projection is lifted before the softmax."""
    family = tiny_family(dtype="bfloat16")
    batch = Batch.of(family.processor, asked_for(Asked.for_scoring))
    with torch.no_grad():
        hidden = family(batch.forest, family.encode(batch.visual))
        tokens = LanguageHead().token_logprobs(family, batch.forest, hidden)
    assert hidden.dtype == torch.bfloat16 and tokens.dtype == torch.float32
    expected = torch.log_softmax(family.logits(hidden).float(), -1)[batch.forest.answer_source, batch.forest.answer_ids]
    assert torch.equal(tokens, expected)
