"""The drawings of MiniAD: jointed figures among big props, one scene for each action."""

from actdeny_train.datasets.miniad_scenes.body_scenes import BODY_SCENES
from actdeny_train.datasets.miniad_scenes.play_scenes import PLAY_SCENES
from actdeny_train.datasets.miniad_scenes.scene import Scene
from actdeny_train.datasets.miniad_scenes.sport_scenes import SPORT_SCENES
from actdeny_train.datasets.miniad_scenes.work_scenes import WORK_SCENES

SCENES: dict[str, Scene] = {scene.action: scene for scene in (*SPORT_SCENES, *PLAY_SCENES, *WORK_SCENES, *BODY_SCENES)}
"""Scenes by UCF101's name of their action."""
