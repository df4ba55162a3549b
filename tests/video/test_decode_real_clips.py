"""Facts of real, odd clips, measured with several decoders; test_decode.py holds their twins on files made here."""

from pathlib import Path

import av
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from actdeny_train.errors import DataError
from actdeny_train.video.decode import read_frames, scan_video
from actdeny_train.video.sampling import Middle

pytestmark = pytest.mark.shared

ALL = Middle(10_000)


@pytest.fixture
def videos(shared: Path) -> Path:
    return shared / "videos"


def mean_change(pixels: np.ndarray) -> float:
    """Return the mean absolute difference of successive frames, in grey levels."""
    grey = pixels.mean(axis=-1)
    return float(np.mean(np.abs(np.diff(grey, axis=0))))


def best_correlation(patch: np.ndarray, image: np.ndarray) -> float:
    """Return the largest normalised correlation of a grey patch with any place of a grey image, both at half size."""
    patch, image = patch[::2, ::2], image[::2, ::2]
    unit = (patch - patch.mean()) / np.linalg.norm(patch - patch.mean())
    best = -1.0
    for places in sliding_window_view(image, patch.shape):
        centred = places - places.mean(axis=(1, 2), keepdims=True)
        best = max(best, float(np.max((centred * unit).sum(axis=(1, 2)) / np.linalg.norm(centred, axis=(1, 2)))))
    return best


@pytest.mark.parametrize(
    ("name", "num_frames", "height_px", "width_px", "duration_s"),
    [
        ("open-mmlab_mmaction2/test.avi", 164, 240, 320, 6.56),
        ("PaddlePaddle_PaddleVideo/example.avi", 131, 240, 320, 5.24),
        ("dmlc_decord/flipping_a_pancake.mkv", 310, 240, 426, 10.333),
        ("meta-pytorch_torchcodec/testsrc2_vp8.webm", 30, 720, 1280, 1.0),
        ("meta-pytorch_torchcodec/testsrc2_vp9.webm", 30, 720, 1280, 1.0),
        ("meta-pytorch_torchcodec/av1_video.mkv", 125, 360, 640, 5.0),
        ("meta-pytorch_torchcodec/h265_video.mp4", 10, 128, 128, 1.0),
        ("meta-pytorch_torchcodec/nasa_13013_rotated.mp4", 17, 480, 270, 0.567),
        ("meta-pytorch_torchcodec/nasa_13013.mp4", 390, 270, 480, 13.013),
        ("meta-pytorch_torchcodec/test_non_zero_start.mp4", 12, 112, 200, 0.4),
        ("meta-pytorch_torchcodec/testsrc2_mpeg4.mp4", 1, 64, 64, 0.04),
        ("dmlc_decord/video_90.mov", 3, 568, 320, 0.1),
        ("dmlc_decord/video_180.mov", 3, 320, 568, 0.1),
        ("OpenGVLab_Ask-Anything/hitting_baseball.mp4", 300, 320, 426, 10.0),
        ("open-mmlab_mmaction2/demo_spatiotemporal_det.mp4", 57, 256, 340, 9.5),
        ("hiyouga_LLaMA-Factory/3.mp4", 146, 360, 640, 6.089),
        ("QwenLM_Qwen3-VL/v_rBMQFpHspmo.mp4", 434, 224, 398, 144.667),
    ],
)
def test_length_and_size(
    videos: Path, name: str, num_frames: int, height_px: int, width_px: int, duration_s: float
) -> None:
    timeline = scan_video(videos / name)
    assert len(timeline.time_s) == num_frames
    assert (timeline.height_px, timeline.width_px) == (height_px, width_px)
    assert timeline.duration_s == pytest.approx(duration_s, abs=1e-3)
    assert timeline.time_s[0] == 0.0


@pytest.mark.parametrize("name", ["flipping_a_pancake.mkv", "testsrc2_vp8.webm", "testsrc2_vp9.webm", "av1_video.mkv"])
def test_headers_without_a_count(videos: Path, name: str) -> None:
    path = next(videos.glob(f"*/{name}"))
    with av.open(str(path)) as container:
        assert container.streams.video[0].frames == 0
        num_packets = sum(packet.size > 0 for packet in container.demux(video=0))
    assert len(scan_video(path).time_s) == num_packets


def test_packed_b_frames_keep_their_order(videos: Path) -> None:
    path = videos / "open-mmlab_mmaction2" / "test.avi"
    frames = read_frames(path, ALL)
    assert frames.num_decoded == 164
    assert frames.time_s == pytest.approx(np.arange(164) / 25)
    assert frames.notes == ("frame times go back 54 times in the file; times are arrival index / 25 per second",)
    with av.open(str(path)) as container:
        by_pts = np.argsort([frame.pts for frame in container.decode(video=0)], kind="stable")
    assert not np.array_equal(by_pts, np.arange(164))
    ours, scrambled = mean_change(frames.pixels), mean_change(frames.pixels[by_pts])
    assert ours == pytest.approx(2.48, abs=0.1)
    assert scrambled == pytest.approx(3.90, abs=0.1)


@pytest.mark.parametrize("name", ["video_90.mov", "video_180.mov"])
def test_rotated_keyboard_is_upright(videos: Path, name: str) -> None:
    # All files film the same keyboard: its key "," of the unrotated file is found better than in the picture upside down.
    # (The shape, tested above, tells the other two directions.)
    def first_grey(file_name: str) -> np.ndarray:
        return read_frames(videos / "dmlc_decord" / file_name, ALL).pixels[0].mean(axis=-1)

    comma_key = first_grey("video_0.mov")[140:225, 425:515]
    shown = first_grey(name)
    assert best_correlation(comma_key, shown) > best_correlation(comma_key, np.rot90(shown, 2)) + 0.08


def test_rotation_flag_on_known_pixels(videos: Path) -> None:
    # The file holds the first 17 frames of nasa_13013.mp4 and asks to turn them by 90 degrees counter-clockwise.
    folder = videos / "meta-pytorch_torchcodec"
    rotated = read_frames(folder / "nasa_13013_rotated.mp4", ALL)
    original = read_frames(folder / "nasa_13013.mp4", ALL, end_s=0.56)
    assert np.array_equal(rotated.pixels, np.rot90(original.pixels, axes=(1, 2)))
    assert rotated.notes == ("turned by 90 degrees counter-clockwise",)


def test_late_start_begins_at_zero(videos: Path) -> None:
    path = videos / "meta-pytorch_torchcodec" / "test_non_zero_start.mp4"
    with av.open(str(path)) as container:
        assert next(container.decode(video=0)).time == pytest.approx(8.333, abs=1e-3)
    assert read_frames(path, ALL).time_s == pytest.approx(np.arange(12) / 30, abs=1e-6)


def test_corrupted_clip(videos: Path) -> None:
    path = videos / "dmlc_decord" / "corrupted.mp4"
    with pytest.raises(
        DataError, match=r"corrupted.mp4' is damaged: 28 frames were decoded \(the header counts 50\), then: "
    ):
        read_frames(path, Middle())
    frames = read_frames(path, Middle(), on_damage="prefix")
    assert frames.num_decoded == 28
    assert frames.indices.tolist() == [1, 3, 5, 8, 10, 12, 15, 17, 19, 22, 24, 26]
    assert frames.notes[0].startswith("damaged: only the first 28 frames could be decoded")
