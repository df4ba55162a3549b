"""The plan: every clip once an epoch, the same for any number of processes."""

from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.training.plan import Plan, StepSampler, Turn
from actdeny_train.training.run import BatchSettings
from actdeny_train.types import Clip, ClipKind


def make_plan(num_clips: int, seed: int = 0, **settings: int | bool) -> Plan:
    clips = [
        Clip(id=f"c{i}", path=f"{i}.mp4", action="Archery", kind=ClipKind.PRESENCE, split="train", source=f"g{i}")
        for i in range(num_clips)
    ]
    values = {"clips_per_step": 4, "clips_per_micro_batch": 1, "questions_per_clip": 2, **settings}
    return Plan(clips, BatchSettings(**values), seed)  # type: ignore[arg-type]


def all_turns(plan: Plan) -> list[Turn]:
    return [turn for number in range(plan.num_steps) for turn in plan.step(number)]


def orders(plan: Plan) -> list[list[str]]:
    """Return the clips of each epoch in the order in which they come up."""
    names = [turn.clip.id for turn in all_turns(plan)]
    return [names[i : i + len(plan.clips)] for i in range(0, len(names), len(plan.clips))]


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 3), st.integers(0, 5))
def test_every_clip_comes_once_in_every_epoch(num_clips: int, clips_per_step: int, num_epochs: int, seed: int) -> None:
    plan = make_plan(num_clips, seed, clips_per_step=clips_per_step, num_epochs=num_epochs)
    assert [sorted(epoch) for epoch in orders(plan)] == [sorted(clip.id for clip in plan.clips)] * num_epochs
    sizes = [len(plan.step(number)) for number in range(plan.num_steps)]
    assert sizes[:-1] == [clips_per_step] * (len(sizes) - 1) and 1 <= sizes[-1] <= clips_per_step


def test_a_number_of_steps_wraps_around_the_clips() -> None:
    plan = make_plan(3, clips_per_step=2, num_steps=4)
    assert plan.num_steps == 4 and [len(plan.step(number)) for number in range(4)] == [2, 2, 2, 2]
    first, second, rest = orders(plan)
    assert sorted(first) == sorted(second) == ["c0", "c1", "c2"] and len(rest) == 2


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    plan = make_plan(9, num_epochs=2)
    assert orders(plan) == orders(make_plan(9, num_epochs=2, clips_per_step=5, clips_per_micro_batch=3))
    first, second = orders(plan)
    assert first != second and first != orders(make_plan(9, 1, num_epochs=1))[0]
    assert first == orders(make_plan(9, num_epochs=1))[0]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 5), st.integers(1, 2))
def test_processes_share_a_step_without_loss(
    num_clips: int, clips_per_step: int, clips_per_micro_batch: int, world_size: int, num_epochs: int
) -> None:
    plan = make_plan(
        num_clips,
        clips_per_step=clips_per_step,
        clips_per_micro_batch=clips_per_micro_batch,
        num_epochs=num_epochs,
    )
    for number in range(plan.num_steps):
        ranks = [plan.micro_batches(number, rank, world_size) for rank in range(world_size)]
        shapes = [[len(forest) for forest in forests] for forests in ranks]
        assert all(shape == shapes[0] for shape in shapes), "devices wait for each other, so all need as many forests"
        assert all(1 <= size <= clips_per_micro_batch for size in shapes[0])
        turns = [turn for forests in ranks for forest in forests for turn in forest]
        assert [turn for turn in turns if turn.weight] == plan.step(number)
        pads = [turn for turn in turns if not turn.weight]
        assert len(pads) == -len(plan.step(number)) % world_size
        assert all(pad.weight == 0 and pad.clip == plan.step(number)[0].clip for pad in pads)


def test_questions_move_on_or_repeat() -> None:
    def asked(plan: Plan) -> dict[str, list[range]]:
        return {clip.id: [t.questions for t in all_turns(plan) if t.clip.id == clip.id] for clip in plan.clips}

    anew = asked(make_plan(3, clips_per_step=2, questions_per_clip=5, num_epochs=3))
    assert anew == {clip: [range(5), range(5, 10), range(10, 15)] for clip in ("c0", "c1", "c2")}
    same = asked(make_plan(3, questions_per_clip=5, num_epochs=3, new_questions_each_epoch=False))
    assert same == {clip: [range(5)] * 3 for clip in ("c0", "c1", "c2")}


def test_the_sampler_goes_on_after_a_resume_and_counts_all_steps() -> None:
    assert list(StepSampler(5, 0)) == [0, 1, 2, 3, 4]
    assert list(StepSampler(5, 3)) == [3, 4] and len(StepSampler(5, 3)) == 5
    assert list(StepSampler(5, 5)) == []
