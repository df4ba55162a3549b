"""The six transfer datasets in small: official annotation files with a few rows, and clips of 8 frames in the official containers."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np

from actdeny_train.actions.labels import (
    load_diving48,
    load_finegym99,
    load_hmdb51,
    load_kinetics400,
    load_something_v2,
    load_ucf101,
)

NUM_FRAMES = 8
CODECS = {".avi": "mpeg4", ".webm": "libvpx-vp9", ".mp4": "libx264"}
"""Encoders of the official files: UCF101 and HMDB51 are MPEG-4 part 2 in AVI, Something-Something V2 is VP9 in WebM."""


@dataclass(frozen=True)
class Miniature:
    """A rendered dataset. ``data`` is its entry in a config; ``split`` the one that configs evaluate.

    ``clips`` are the usable clips of that split by id, each with its action; ``train`` are ids of the other split; ``missing`` are
    ids of ``split`` without a file.
    """

    root: Path
    data: Mapping[str, Any]
    split: str
    clips: Mapping[str, str]
    train: tuple[str, ...]
    missing: tuple[str, ...] = ()
    official: Mapping[str, int] = field(default_factory=dict)
    """Clips that the published dataset has in each split."""


def render(name: str, root: Path) -> Miniature:
    """Write the dataset ``name`` (a key of ``MINIATURES``) below ``root``."""
    return MINIATURES[name](root)


def _ucf101(root: Path) -> Miniature:
    test = {"Archery/v_Archery_g01_c01": "Archery", "Archery/v_Archery_g01_c02": "Archery"}
    test |= {"HandstandPushups/v_HandStandPushups_g02_c01": "HandstandPushups", "YoYo/v_YoYo_g03_c01": "YoYo"}
    train = ("Archery/v_Archery_g08_c01", "YoYo/v_YoYo_g09_c01")
    place = {action: i for i, action in enumerate(load_ucf101().actions, start=1)}
    # CRLF, and a number in the train list alone, as published.
    _write(root / "ucfTrainTestlist/classInd.txt", [f"{i} {action}" for action, i in place.items()], "\r\n")
    _write(root / "ucfTrainTestlist/testlist01.txt", [f"{id}.avi" for id in test], "\r\n")
    _write(root / "ucfTrainTestlist/trainlist01.txt", [f"{id}.avi {place[id.split('/')[0]]}" for id in train], "\r\n")
    for id in (*test, *train):
        write_clip(root / "UCF-101" / f"{id}.avi")
    return Miniature(root, _data("ucf101.UCF101", root), "test", test, train, official={"train": 9_537, "test": 3_783})


def _hmdb51(root: Path) -> Miniature:
    tail = "u_nm_np1_fr_med_0"
    test = {
        f"walk/(HQ)_Rock&Roll!_#1;_[2+3]~@_walk_{tail}": "walk",
        f"draw_sword/Film_draw_sword_{tail}": "draw_sword",
        f"sword/Film_sword_{tail}": "sword",
    }
    train = (f"kick_ball/Film_kick_ball_{tail}", f"walk/April_09_walk_{tail}")
    unused = f"walk/Other_walk_{tail}"
    for action in load_hmdb51().actions:
        flagged = [(id, flag) for ids, flag in ((test, 2), (train, 1), ((unused,), 0)) for id in ids]
        rows = [f"{id.split('/')[1]}.avi {flag} " for id, flag in flagged if id.split("/")[0] == action]
        _write(root / "testTrainMulti_7030_splits" / f"{action}_test_split1.txt", rows, "\n")
    for id in (*test, *train, unused):
        write_clip(root / f"{id}.avi")
    return Miniature(root, _data("hmdb51.HMDB51", root), "test", test, train, official={"train": 3_570, "test": 1_530})


def _kinetics400(root: Path) -> Miniature:
    rows = {
        "0wR5jVB-WPk": ("abseiling", 417),
        "-_y_Nz99xM-": ("massaging person's head", 6),
        "a-_b-_c-_d-": ("passing American football (in game)", 0),
        "lostByTube_": ("petting cat", 5),
    }
    train = {"_6aVQP3TZ04": ("yoga", 12), "Ysl9s4kVTYI": ("abseiling", 0)}
    test = {"3caPS4FHFF8": 36}
    header = "label,youtube_id,time_start,time_end,split,is_cc"
    for split, listed in (("val", rows), ("train", train)):
        lines = [f"{label},{id},{start},{start + 10},{split},0" for id, (label, start) in listed.items()]
        _write(root / "annotations" / f"kinetics-400_{split}.csv", [header, *lines], "\n")
    lines = [f"{id},{start},{start + 10},test" for id, start in test.items()]
    _write(root / "annotations/kinetics-400_test.csv", [header[6:-6], *lines], "\n")
    _write(root / "annotations/label_map.txt", list(load_kinetics400().actions), "\n")
    named = {id: f"{id}_{start:06d}_{start + 10:06d}" for id, (_, start) in (rows | train).items()}
    write_clip(root / "val/abseiling" / f"{named['0wR5jVB-WPk']}.mp4")
    write_clip(root / "val/massaging person's head" / f"{named['-_y_Nz99xM-']}.mp4")
    write_clip(root / "val" / f"{named['a-_b-_c-_d-']}.mp4")
    for id in train:
        write_clip(root / "train" / f"{named[id]}.mp4")
    clips = {named[id]: label for id, (label, _) in rows.items()}
    lost = named["lostByTube_"]
    return Miniature(
        root,
        _data("kinetics400.Kinetics400", root),
        "val",
        {id: label for id, label in clips.items() if id != lost},
        tuple(named[id] for id in train),
        missing=(lost,),
        official={"train": 246_534, "val": 19_906},
    )


def _something_v2(root: Path) -> Miniature:
    val = {
        "74225": ("Spinning [something] that quickly stops spinning", ["cube"]),
        "113563": ("Pretending to open [something] without actually opening it", ["Taschentücher"]),
        "2": ("Putting [something] onto [something]", ["a cup", "a box"]),
    }
    train = {"7": ("Opening [something]", ["a jar"]), "8": ("Holding [something]", ["a pen"])}
    test = {"11": "Holding something", "12": "Throwing something"}

    def entries(listed: Mapping[str, tuple[str, list[str]]]) -> list[dict[str, object]]:
        found = []
        for id, (template, nouns) in listed.items():
            label = template.replace("[something]", "{}").format(*nouns).lower()
            found.append({"id": id, "label": label, "template": template, "placeholders": nouns})
        return found

    labels = {action: str(i) for i, action in enumerate(load_something_v2().actions)}
    for file, content in (
        ("labels", labels),
        ("train", entries(train)),
        ("validation", entries(val)),
        ("test", [{"id": id} for id in test]),
    ):
        path = root / "labels" / f"{file}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    _write(root / "labels/test-answers.csv", [f"{id};{label}" for id, label in test.items()], "\n")
    for id in (*val, *train, *test):
        write_clip(root / "20bn-something-something-v2" / f"{id}.webm")
    return Miniature(
        root,
        _data("something_v2.SomethingV2", root),
        "val",
        {id: template.replace("[", "").replace("]", "") for id, (template, _) in val.items()},
        tuple(train),
        official={"train": 168_913, "val": 24_777, "test": 27_157},
    )


def _diving48(root: Path) -> Miniature:
    test = {"-mmq0PT-u8k_00155": 0, "8qRmKunCjtY_00016": 3, "8qRmKunCjtY_00017": 47}
    train = {"CVAfPfVFulQ_00038": 5, "3qq031609lA_00002": 0}
    for split, listed in (("train", train), ("test", test)):
        entries = [
            {"vid_name": id, "label": label, "start_frame": 0, "end_frame": NUM_FRAMES} for id, label in listed.items()
        ]
        root.mkdir(parents=True, exist_ok=True)
        (root / f"Diving48_V2_{split}.json").write_text(json.dumps(entries), encoding="utf-8")
    for id in (*test, *train):
        write_clip(root / "rgb" / f"{id}.mp4")
    actions = load_diving48().actions
    return Miniature(
        root,
        {**_data("diving48.Diving48", root), "official_sizes": False},
        "test",
        {id: actions[label] for id, label in test.items()},
        tuple(train),
        official={"train": 15_027, "test": 1_970},
    )


def _finegym99(root: Path) -> Miniature:
    val = {
        "0LtLS9wROrk_E_002407_002435_A_0003_0005": 58,
        "0LtLS9wROrk_E_002407_002435_A_0006_0008": 70,
        "A0xAXXysHUo_E_002184_002237_A_0035_0035": 93,
    }
    train = {"AZ4wWG6Rcak_E_003643_003675_A_0024_0026": 77, "AZ4wWG6Rcak_E_004073_004175_A_0053_0054": 43}
    _write(root / "annotations/gym99_train_element_v1.1.txt", [f"{id} {label}" for id, label in train.items()], "\n")
    # CRLF and no end of line after the last row, as published.
    text = "\r\n".join(f"{id} {label}" for id, label in val.items())
    (root / "annotations/gym99_val_element.txt").write_bytes(text.encode())
    for id in (*val, *train):
        write_clip(root / "videos" / f"{id}.mp4")
    actions = load_finegym99().actions
    return Miniature(
        root,
        _data("finegym99.FineGym99", root),
        "val",
        {id: actions[label] for id, label in val.items()},
        tuple(train),
        official={"train": 26_320, "val": 8_521},
    )


MINIATURES: dict[str, Callable[[Path], Miniature]] = {
    "ucf101": _ucf101,
    "kinetics400": _kinetics400,
    "hmdb51": _hmdb51,
    "something_v2": _something_v2,
    "diving48": _diving48,
    "finegym99": _finegym99,
}


def write_clip(path: Path, num_frames: int = NUM_FRAMES) -> None:
    """Write a clip of 64 x 48 pixels: a square that moves over a ground, both in colours made from the file's name."""
    seed = int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:4], "big")
    rng = np.random.default_rng(seed)
    ground, square = rng.integers(0, 256, (2, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(CODECS[path.suffix], rate=12)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for k in range(num_frames):
            pixels = np.broadcast_to(ground, (48, 64, 3)).copy()
            pixels[16:32, 4 + 5 * k : 20 + 5 * k] = square
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))


def _data(target: str, root: Path) -> dict[str, Any]:
    return {"_target_": f"actdeny_train.datasets.{target}", "root": str(root)}


def _write(path: Path, lines: list[str], end: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())
