"""Decoding of files made here; test_decode_real_clips.py holds the same facts of real clips."""

import itertools
import os
import re
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.video import decode
from actdeny_train.video.decode import read_frames, scan_video
from actdeny_train.video.encode import write_video
from actdeny_train.video.sampling import Fps, Middle

ALL = Middle(1000)
UNIT = 65536
"""1.0 in the 16.16 fixed point of a display matrix [a b u  c d v  x y w]: x' = a x + c y, y' = b x + d y (ISO 14496-12)."""
OPEN_FILES = Path("/proc/self/fd")


def frame_numbers(pixels: np.ndarray) -> list[int]:
    """Tell grey frames by their level, 10 + 8 k."""
    return np.round((pixels.mean(axis=(1, 2, 3)) - 10) / 8).astype(int).tolist()


def test_all_frames(clip: Path) -> None:
    frames = read_frames(clip, ALL)
    assert frames.pixels.shape == (20, 48, 64, 3)
    assert frame_numbers(frames.pixels) == list(range(20))
    assert frames.indices.tolist() == list(range(20))
    assert frames.time_s == pytest.approx(np.arange(20) / 25)
    assert (frames.num_decoded, frames.sampling, frames.notes) == (20, "middle(num_frames=1000)", ())


def test_chosen_frames_have_their_own_times(clip: Path) -> None:
    frames = read_frames(clip, Middle(4))
    assert frames.indices.tolist() == [2, 7, 12, 17] == frame_numbers(frames.pixels)
    assert frames.time_s == pytest.approx([0.08, 0.28, 0.48, 0.68])
    assert frames.num_decoded == 20


def test_span_is_half_open_and_counts_from_its_first_frame(clip: Path) -> None:
    frames = read_frames(clip, ALL, start_s=0.2, end_s=0.4)
    assert frame_numbers(frames.pixels) == [5, 6, 7, 8, 9]
    assert frames.indices.tolist() == [0, 1, 2, 3, 4]
    assert frames.time_s == pytest.approx([0, 0.04, 0.08, 0.12, 0.16])
    assert (frames.num_decoded, frames.notes) == (5, ())
    assert frame_numbers(read_frames(clip, Middle(1), start_s=0.41).pixels) == [15]
    assert frame_numbers(read_frames(clip, Middle(1), end_s=0.01).pixels) == [0]


def test_span_past_the_end_is_noted(clip: Path) -> None:
    assert read_frames(clip, ALL, end_s=0.8).notes == ()
    frames = read_frames(clip, ALL, start_s=0.7, end_s=9.0)
    assert frame_numbers(frames.pixels) == [18, 19]
    assert frames.notes == ("the span ends at 9 s, the video already at 0.800 s",)


@pytest.mark.parametrize(
    ("start_s", "end_s"), [(0.8, None), (0.3, 0.3), (0.5, 0.2), (None, 0.0), (-0.1, 0.5), (0.41, 0.43)]
)
def test_empty_span_names_the_length(clip: Path, start_s: float | None, end_s: float | None) -> None:
    message = rf"clip.mp4': the span from {start_s} s to {end_s} s holds no frame\. The video has 20 frames from 0 s to 0.760 s"
    with pytest.raises(DataError, match=message):
        read_frames(clip, ALL, start_s=start_s, end_s=end_s)


def test_arrival_order_where_times_go_back(write_grey: Callable[..., Path]) -> None:
    # AVI keeps no presentation times, so FFmpeg gives wrong ones to streams with B-frames.
    path = write_grey("b_frames.avi")
    with av.open(str(path)) as container:
        pts = [frame.pts for frame in container.decode(video=0)]
    backward = sum(b <= a for a, b in itertools.pairwise(pts))
    assert backward > 0
    frames = read_frames(path, ALL)
    assert frame_numbers(frames.pixels) == list(range(20))
    assert frames.time_s == pytest.approx(np.arange(20) / 25)
    assert frames.notes == (
        f"frame times go back {backward} times in the file; times are arrival index / 25 per second",
    )


def test_missing_times_follow_the_rate(write_grey: Callable[..., Path]) -> None:
    frames = read_frames(write_grey("raw.h264", container_format="h264"), ALL)
    assert frame_numbers(frames.pixels) == list(range(20))
    assert frames.time_s == pytest.approx(np.arange(20) / 25)
    assert frames.notes == ("20 of 20 frame times are missing in the file; times are arrival index / 25 per second",)


def test_late_start_begins_at_zero(write_grey: Callable[..., Path]) -> None:
    path = write_grey("late.ts")
    with av.open(str(path)) as container:
        assert next(container.decode(video=0)).time > 0
    frames = read_frames(path, ALL)
    assert frames.time_s == pytest.approx(np.arange(20) / 25)
    assert frames.time_s[0] == scan_video(path).time_s[0] == 0.0
    assert frame_numbers(read_frames(path, ALL, end_s=0.06).pixels) == [0, 1]


def test_variable_rate(write_grey: Callable[..., Path]) -> None:
    pts_ms = [0, 10, 15, 100, 101, 500, 733, 900, 901, 2007]
    path = write_grey("variable.mkv", pts_ms=pts_ms)
    frames = read_frames(path, ALL)
    assert frames.time_s == pytest.approx(np.array(pts_ms) / 1000)
    assert frame_numbers(frames.pixels) == list(range(10))
    assert read_frames(path, Fps(2.0)).indices.tolist() == [0, 5, 8, 9]
    assert read_frames(path, ALL, start_s=0.1, end_s=0.5).indices.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("linear", "corner", "rotation_deg", "mirrored"),
    [
        ([1, 0, 0, 1], "top left", 0, False),
        ([0, 1, -1, 0], "top right", -90, False),
        ([-1, 0, 0, -1], "bottom right", -180, False),
        ([0, -1, 1, 0], "bottom left", 90, False),
        ([-1, 0, 0, 1], "top right", -180, True),
        ([1, 0, 0, -1], "bottom left", 0, True),
        ([0, 1, 1, 0], "top left", -90, True),
        ([0, -1, -1, 0], "bottom right", 90, True),
    ],
)
def test_display_matrix(
    write_grey: Callable[..., Path], linear: list[int], corner: str, rotation_deg: int, mirrored: bool
) -> None:
    # The stored picture is bright in its top left corner and half bright along its left side.
    stored = np.zeros((3, 48, 64, 3), np.uint8)
    stored[:, :, :16] = 110
    stored[:, :16, :16] = 250
    a, b, c, d = (UNIT * value for value in linear)
    path = write_grey("turned.mov", pixels=stored, display_matrix=[a, b, 0, c, d, 0, 0, 0, 1 << 30])
    shown = read_frames(path, Middle(1)).pixels[0].mean(axis=-1)
    assert shown.shape == ((48, 64) if linear[0] else (64, 48))
    quarter = {
        "top left": shown[:12, :12],
        "top right": shown[:12, -12:],
        "bottom left": shown[-12:, :12],
        "bottom right": shown[-12:, -12:],
    }
    assert {name for name, part in quarter.items() if part.mean() > 200} == {corner}
    # The image of the stored left side: the half bright corner is the bright one moved along (c, d).
    vertical, horizontal = corner.split()
    if linear[3]:
        other = f"{'bottom' if vertical == 'top' else 'top'} {horizontal}"
    else:
        other = f"{vertical} {'right' if horizontal == 'left' else 'left'}"
    assert {name for name, part in quarter.items() if 60 < part.mean() < 160} == {other}
    timeline = scan_video(path)
    assert (timeline.height_px, timeline.width_px) == shown.shape
    assert timeline.rotation_deg == rotation_deg


def test_skew_rotation_is_refused(write_grey: Callable[..., Path]) -> None:
    half = int(UNIT * 0.5**0.5)
    path = write_grey("skew.mov", display_matrix=[half, half, 0, -half, half, 0, 0, 0, 1 << 30])
    with pytest.raises(
        DataError, match=r"skew.mov' asks for a rotation by -45 degrees; only multiples of 90 are allowed"
    ):
        scan_video(path)


def test_damage_is_an_error(damaged: Path) -> None:
    message = (
        r"clip.mp4' is damaged: \d+ frames were decoded \(the header counts 20\), then: Invalid data found when "
        r"processing input\. Replace the file, leave the clip out, or keep the frames before the damage with on_damage: prefix\."
    )
    with pytest.raises(DataError, match=message):
        read_frames(damaged, ALL)


def test_prefix_before_damage(damaged: Path) -> None:
    frames = read_frames(damaged, ALL, on_damage="prefix")
    n = frames.num_decoded
    # 12 whole packets stand before the damage; the decoder may still hold a few of them for reordering.
    assert 8 <= n <= 12
    assert frame_numbers(frames.pixels) == list(range(n))
    assert frames.notes == (
        f"damaged: only the first {n} frames could be decoded (Invalid data found when processing input)",
    )
    assert read_frames(damaged, Middle(2), on_damage="prefix").indices.tolist() == [n // 4, 3 * n // 4]


def test_unknown_damage_rule_is_refused(clip: Path) -> None:
    with pytest.raises(ConfigError, match="on_damage is 'ignore', but must be 'error' or 'prefix'"):
        read_frames(clip, ALL, on_damage="ignore")  # type: ignore[arg-type]


def test_file_cut_short_between_packets_is_noted(tmp_path: Path, clip: Path) -> None:
    # With the index in front, FFmpeg takes the end of the file for the end of the video.
    whole = tmp_path / "front.mp4"
    with av.open(str(clip)) as source, av.open(str(whole), "w", options={"movflags": "faststart"}) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    with av.open(str(whole)) as container:
        position = [packet.pos for packet in container.demux(video=0) if packet.size][13]
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole.read_bytes()[:position])
    timeline = scan_video(cut)
    assert len(timeline.time_s) == 13
    assert timeline.notes == ("the header counts 20 frames, but 13 were decoded",)


def test_size_change_is_refused(tmp_path: Path, grey_pixels: np.ndarray) -> None:
    parts = []
    for name, pixels in [("a.mp4", grey_pixels), ("b.mp4", grey_pixels[:, :32, :32])]:
        write_video(tmp_path / name, pixels, 25)
        stream_path = tmp_path / f"{name}.h264"
        with av.open(str(tmp_path / name)) as source, av.open(str(stream_path), "w", format="h264") as target:
            stream = target.add_stream_from_template(source.streams.video[0])
            for packet in source.demux(video=0):
                if packet.dts is not None:
                    packet.stream = stream
                    target.mux(packet)
        parts.append(stream_path.read_bytes())
    path = tmp_path / "both.h264"
    path.write_bytes(b"".join(parts))
    with pytest.raises(DataError, match=r"both.h264' changes its picture from 64 x 48 to 32 x 32 pixels at frame 20"):
        scan_video(path)


def test_files_without_video(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"video '.*absent.mp4' does not exist\. Check the path and the dataset's root"):
        read_frames(tmp_path / "absent.mp4", ALL)
    with pytest.raises(DataError, match="is not a regular file, but a folder or a device"):
        read_frames(tmp_path, ALL)
    empty = tmp_path / "empty.mp4"
    empty.touch()
    with pytest.raises(DataError, match=r"empty.mp4' is empty \(0 bytes\)\. Copy or download it again"):
        read_frames(empty, ALL)
    page = tmp_path / "page.mp4"
    page.write_text("<!DOCTYPE html><html><body>404 not found</body></html>\n" * 40)
    with pytest.raises(DataError, match=r"page.mp4' \(2200 bytes\) cannot be opened: Invalid data found"):
        read_frames(page, ALL)
    sound = tmp_path / "sound.mkv"
    with av.open(str(sound), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        chunk = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        chunk.sample_rate = 8000
        container.mux(stream.encode(chunk))
        container.mux(stream.encode(None))
    with pytest.raises(DataError, match=r"sound.mkv' has no video stream \(found: audio\)"):
        read_frames(sound, ALL)


def test_stream_without_frames(tmp_path: Path, clip: Path) -> None:
    path = tmp_path / "hollow.mkv"
    with av.open(str(clip)) as source, av.open(str(path), "w") as target:
        target.add_stream_from_template(source.streams.video[0])
        target.start_encoding()
    with pytest.raises(DataError, match=r"hollow.mkv'.*(no frame could be decoded|cannot be opened)"):
        read_frames(path, ALL)


def test_playlist_cannot_reach_the_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        playlist = tmp_path / "list.m3u8"
        address = f"http://127.0.0.1:{server.getsockname()[1]}/a.ts"
        playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{address}\n#EXT-X-ENDLIST\n")
        with pytest.raises(DataError, match=r"list.m3u8'"):
            read_frames(playlist, ALL)
        with pytest.raises(BlockingIOError):  # Nobody has called.
            server.accept()


def test_path_that_looks_like_a_protocol(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clip.parent)
    clip.rename(clip.parent / "concat:one.mp4")
    assert read_frames(Path("concat:one.mp4"), Middle(1)).indices.tolist() == [10]


def test_memory_holds_chosen_frames_only(tmp_path: Path) -> None:
    path = tmp_path / "long.mp4"
    write_video(path, np.zeros((200, 128, 128, 3), np.uint8), 25)  # 9.8 MB of pixels
    tracemalloc.start()
    try:
        read_frames(path, Middle(2))
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts open files as Linux shows them")
def test_files_are_closed(damaged: Path) -> None:
    before = len(list(OPEN_FILES.iterdir()))
    for _ in range(5):
        read_frames(damaged, Middle(2), on_damage="prefix")
        with pytest.raises(DataError):
            read_frames(damaged, ALL)
    assert len(list(OPEN_FILES.iterdir())) == before


def test_text_and_still_pictures_are_no_videos(tmp_path: Path) -> None:
    note = tmp_path / "readme.txt"
    note.write_text("These clips are for research only.\n" * 40)
    with pytest.raises(
        DataError, match=r"readme.txt' holds text \(FFmpeg's format 'tty'\)\. Name a file with moving pictures"
    ):
        scan_video(note)
    for kind in ("png", "jpeg"):
        path = tmp_path / f"{kind}.mp4"
        Image.new("RGB", (64, 48)).save(path, kind)
        with pytest.raises(DataError, match=rf"{kind}.mp4' holds a still picture \(FFmpeg's format '{kind}_pipe'\)"):
            scan_video(path)


def test_one_frame_is_a_video(tmp_path: Path, grey_pixels: np.ndarray) -> None:
    write_video(tmp_path / "one.mp4", grey_pixels[:1], 25)
    for sampling in (Middle(), Fps(2.0, min_frames=4)):
        frames = read_frames(tmp_path / "one.mp4", sampling)
        assert (frames.indices.tolist(), frames.time_s.tolist(), frames.num_decoded) == ([0], [0.0], 1)


def test_unknown_codec(clip: Path) -> None:
    clip.write_bytes(clip.read_bytes().replace(b"avc1", b"zzzz"))
    with pytest.raises(
        DataError, match=r"clip.mp4': this FFmpeg \(in PyAV .*\) has no decoder for its pictures\. Re-encode"
    ):
        scan_video(clip)


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"n.mp4' cannot be looked up: File name too long\. Check the path"):
        scan_video(tmp_path / f"{'n' * 300}.mp4")
    for name in ("zero\0byte.mp4", "half\ud800pair.mp4", "clip.mp4/below.mp4"):
        with pytest.raises(DataError, match="does not exist"):
            scan_video(tmp_path / name)


def test_name_in_another_encoding(clip: Path) -> None:
    path = clip.with_name(os.fsdecode(b"caf\xe9.mp4"))
    clip.rename(path)
    assert len(scan_video(path).time_s) == 20


@pytest.fixture
def concealed(tmp_path: Path) -> Path:
    """30 frames of noise; the second half of the 16th packet is overwritten, which the decoder conceals and goes on."""
    path = tmp_path / "concealed.mp4"
    write_video(path, np.random.default_rng(0).integers(0, 256, (30, 96, 96, 3), dtype=np.uint8), 10)
    with av.open(str(path)) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][15]
        position, size = packet.pos + packet.size // 2, packet.size // 2
    with path.open("r+b") as file:
        file.seek(position)
        file.write(np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8).tobytes())
    return path


def test_concealed_damage_is_damage(concealed: Path) -> None:
    with av.open(str(concealed)) as container:
        is_corrupt = [frame.is_corrupt for frame in container.decode(video=0)]
    assert len(is_corrupt) == 30, "FFmpeg itself reports no error"
    first = is_corrupt.index(True)
    with pytest.raises(
        DataError,
        match=rf"is damaged: {first} frames were decoded \(the header counts 30\), then: frame {first} is corrupt\.",
    ):
        scan_video(concealed)
    frames = read_frames(concealed, ALL, on_damage="prefix")
    assert frames.num_decoded == first > 0
    assert frames.notes == (f"damaged: only the first {first} frames could be decoded (frame {first} is corrupt)",)


def test_matroska_cut_short_is_noted(write_grey: Callable[..., Path]) -> None:
    path = write_grey("cut.mkv", pts_ms=[200 * k for k in range(20)])
    assert scan_video(path).notes == ()
    with av.open(str(path)) as container:
        position = [packet.pos for packet in container.demux(video=0) if packet.size][12]
    path.write_bytes(path.read_bytes()[:position])
    timeline = scan_video(path)
    assert len(timeline.time_s) <= 12
    (note,) = timeline.notes
    assert re.fullmatch(r"the header promises 3\.8\d\d s, but the pictures end at [12]\.\d\d\d s", note)


def test_file_that_breaks_between_the_two_readings(
    clip: Path, damaged: Path, tmp_path: Path, grey_pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_video(tmp_path / "whole.mp4", grey_pixels, 25)
    whole = scan_video(tmp_path / "whole.mp4")
    monkeypatch.setattr(decode, "scan_video", lambda path, on_damage: whole)
    with pytest.raises(
        DataError, match=r"changed while it was read: \d+ of 20 chosen frames could be decoded again\. Run again"
    ):
        read_frames(damaged, ALL)
