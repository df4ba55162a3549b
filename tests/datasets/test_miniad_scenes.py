"""The drawings: geometry of the figure, easing, looks, and that a drawing stays in its frame."""

import cmath
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.datasets.miniad_scenes import SCENES
from actdeny_train.datasets.miniad_scenes.figure import FOREARM, SHIN, THIGH, UPPER_ARM, bend
from actdeny_train.datasets.miniad_scenes.look import SHIRTS, Look, Shot, draw_look, draw_shot
from actdeny_train.datasets.miniad_scenes.motions import STAND, WAVE, from_shoulder, keyed, mirrored, upright, walk
from actdeny_train.datasets.miniad_scenes.scene import render
from actdeny_train.draw import Draw
from actdeny_train.types import ClipKind

POINTS = st.complex_numbers(max_magnitude=2, allow_nan=False, allow_infinity=False)
KINDS = (ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION)


@given(
    start=POINTS,
    end=POINTS,
    side=st.sampled_from((-1, 1)),
    bones=st.sampled_from(((UPPER_ARM, FOREARM), (THIGH, SHIN))),
)
def test_bones_keep_their_length_and_point_to_the_end(
    start: complex, end: complex, side: int, bones: tuple[float, float]
) -> None:
    joint, reached = bend(start, end, *bones, side)
    assert abs(joint - start) == pytest.approx(bones[0], abs=1e-6)
    assert abs(reached - joint) == pytest.approx(bones[1], abs=1e-6)
    if abs(bones[0] - bones[1]) + 1e-5 < abs(end - start) < sum(bones) - 1e-5:
        assert reached == pytest.approx(end, abs=1e-6)


def test_a_joint_bends_to_the_asked_side() -> None:
    left, _ = bend(0j, 0.2j, 0.15, 0.15, 1)
    right, _ = bend(0j, 0.2j, 0.15, 0.15, -1)
    assert left.real < 0 < right.real and left.imag == pytest.approx(right.imag)


def test_keyed_passes_its_keys_and_repeats() -> None:
    keys = ((0.0, 1 + 0j), (0.25, 2j), (0.5, 3 + 0j))
    for time, value in keys:
        assert keyed(time, *keys) == pytest.approx(value)
        assert keyed(time + 7, *keys) == pytest.approx(value)
    assert keyed(0.75, *keys) == pytest.approx(2)  # half of the way from 3 back to 1


def test_mirrored_twice_is_the_same_pose() -> None:
    pose = walk(0.4, 0.3)
    turned = mirrored(pose, 0.4)
    assert turned.head.real - 0.4 == pytest.approx(0.4 - pose.head.real)
    back = mirrored(turned, 0.4)
    assert (back.elbows, back.knees, back.lean) == (pose.elbows, pose.knees, pose.lean)
    for before, after in zip((*pose.hands, *pose.feet), (*back.hands, *back.feet), strict=True):
        assert after == pytest.approx(before)


def test_standing_is_nearly_still_and_waving_is_not() -> None:
    def travel(motion) -> float:
        hands = [motion.pose(0.5, beat / 16).hands[1] for beat in range(17)]
        return max(abs(p - q) for p in hands for q in hands)

    assert travel(STAND) < 0.02 < 0.3 < travel(WAVE)


def test_looks_and_shots_depend_on_their_key_alone() -> None:
    assert draw_look(Draw(0, "a")) == draw_look(Draw(0, "a")) != draw_look(Draw(0, "b"))
    assert draw_shot(Draw(0, "a")) == draw_shot(Draw(0, "a")) != draw_shot(Draw(0, "b"))
    assert {draw_look(Draw(0, i)).shirt_name for i in range(200)} == set(SHIRTS)


def plain(mirror: bool) -> tuple[Look, Shot]:
    look = draw_look(Draw("plain"))
    values = {**vars(look), "mirror": mirror, "offset": 0j, "zoom": 1.0}
    return Look(**values), Shot(beat=0.1, rate=1.0, zoom=1.0, offset=0j)


@pytest.mark.parametrize("action", ("Archery", "Biking", "PushUps"))
def test_a_mirrored_source_is_the_mirror_image(action: str) -> None:
    scene = SCENES[action]
    images = []
    for mirror in (False, True):
        look, shot = plain(mirror)
        images.append(render(scene, scene.presence[0], look, shot, size_px=48, num_frames=2, fps=4).astype(float))
    assert images[0].shape == (2, 48, 48, 3)
    apart = np.abs(images[0] - images[1]).mean()
    flipped = np.abs(images[0] - images[1][:, :, ::-1]).mean()
    assert flipped < 0.5 * apart  # not 0: Pillow rounds edges towards the left


@pytest.mark.parametrize("action", SCENES)
def test_kinds_of_one_source_look_different_within_one_place(action: str) -> None:
    scene = SCENES[action]
    look, shot = plain(False)
    shown = {
        kind: render(scene, scene.takes(kind)[0], look, shot, size_px=48, num_frames=8, fps=4).astype(float)
        for kind in KINDS
    }
    median = {kind: np.median(pixels, axis=0) for kind, pixels in shown.items()}
    for kind in KINDS[1:]:
        assert np.abs(shown[KINDS[0]] - shown[kind]).mean() > 2
    if not scene.presence[0].travel:  # the place itself is still: most of the frame is the same
        same = np.abs(median[KINDS[0]] - median[KINDS[1]]).max(axis=-1) < 8
        assert same.mean() > 0.5


@pytest.mark.parametrize("action", SCENES)
def test_presence_repeats_after_its_period(action: str) -> None:
    scene = SCENES[action]
    look, _ = plain(False)
    # The slowest part of any scene (walking on the hands) takes four beats; the street repeats after two frame widths.
    first, second = (
        render(
            scene, scene.presence[0], look, Shot(beat=beat, rate=1, zoom=1, offset=0j), size_px=48, num_frames=4, fps=4
        )
        for beat in (0.25, 4.25)
    )
    assert np.abs(first.astype(float) - second).mean() < 0.5


def test_shoulder_angles_turn_from_hanging_over_right_to_up() -> None:
    pose = upright(0.5)
    assert from_shoulder(pose, 0, 0.0, 0.2) - pose.shoulders[0] == pytest.approx(0.2j)
    assert from_shoulder(pose, 1, math.pi / 2, 0.2) - pose.shoulders[1] == pytest.approx(0.2)
    assert cmath.phase(from_shoulder(pose, 1, math.pi, 0.2) - pose.shoulders[1]) == pytest.approx(-math.pi / 2)
