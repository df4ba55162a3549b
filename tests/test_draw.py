"""Draws: the same for ever, uniform, and keyed by their parts alone."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from actdeny_train.draw import Draw

PARTS = st.lists(
    st.one_of(st.text(max_size=6), st.integers(), st.sampled_from(["\x1f", "\\", "\\u", "a\x1fb"])), max_size=4
)


def test_the_first_words_follow_from_sha256_alone():
    # printf '7\x1fclip\x1fmcq' | sha256sum gives the key; each word is the first 8 bytes of sha256(key + 8-byte counter)
    key = hashlib.sha256(b"7\x1fclip\x1fmcq").digest()
    words = [int.from_bytes(hashlib.sha256(key + n.to_bytes(8, "big")).digest()[:8], "big") for n in range(3)]
    draw = Draw(7, "clip", "mcq")
    assert [draw.integer(1 << 64) for _ in range(3)] == words


def test_draws_never_change():
    """Recorded when ``Draw`` was written. If one of these changes, every saved question of every run changes: do not update them."""
    draw = Draw(0, "v_Archery_g01_c01", "five_choice", 2)
    assert draw.integer(1000) == 860
    assert draw.uniform() == 0.5900205042272781
    assert draw.uniform(-2.0, 3.0) == 0.40229924110357596
    assert draw.choice("abcdefgh") == "c"
    assert draw.sample(range(101), 5) == [42, 70, 57, 67, 54]
    assert draw.shuffle(range(11)) == [5, 2, 8, 3, 1, 0, 10, 9, 4, 6, 7]
    assert Draw().integer(1 << 64) == 6655549341071012288
    assert Draw("Grüße\x1f", "\\", None, 1.5).integer(1 << 64) == 14242136864946321285


@pytest.mark.parametrize("n", [2, 5, 11, 101])
def test_integers_are_uniform(n):
    draw = Draw("uniform", n)
    counts = Counter(draw.integer(n) for _ in range(200 * n))
    assert set(counts) == set(range(n))
    assert chisquare([counts[i] for i in range(n)]).pvalue > 1e-3


def test_first_draws_of_neighbouring_keys_are_uniform():
    """What a benchmark relies on: one draw for each clip, not many draws of one stream."""
    counts = Counter(Draw(0, f"clip{i}", "five_choice").integer(5) for i in range(2000))
    assert chisquare([counts[i] for i in range(5)]).pvalue > 1e-3
    assert kstest([Draw(i).uniform() for i in range(2000)], "uniform").pvalue > 1e-3


def test_every_order_of_a_shuffle_is_equally_likely():
    counts = Counter(tuple(Draw("orders", i).shuffle("abcd")) for i in range(2400))
    assert len(counts) == 24
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_words_above_the_last_multiple_are_drawn_again(monkeypatch):
    words = iter([(1 << 64) - 1, (1 << 64) - 2, 10])  # 2**64 leaves 1 modulo 3, so only its largest word is refused
    monkeypatch.setattr(Draw, "_word", lambda self: next(words))
    assert Draw().integer(3) == ((1 << 64) - 2) % 3
    assert next(words) == 10


@given(PARTS, PARTS)
def test_streams_are_equal_exactly_if_their_parts_read_the_same(a, b):
    texts_a, texts_b = [str(part) for part in a], [str(part) for part in b]
    same = (texts_a or [""]) == (texts_b or [""])  # no parts are one empty part
    assert (Draw(*a).integer(1 << 64) == Draw(*b).integer(1 << 64)) == same


@given(st.lists(st.integers(), max_size=12), st.integers(0, 12), st.integers())
def test_a_sample_takes_positions_once_and_leaves_its_argument(items, k, seed):
    before = list(items)
    if k > len(items):
        with pytest.raises(ValueError, match=rf"0 <= k <= {len(items)} items, but got k = {k}"):
            Draw(seed).sample(items, k)
        return
    taken = Draw(seed).sample(items, k)
    assert items == before
    assert len(taken) == k and not Counter(taken) - Counter(items)
    assert Draw(seed).shuffle(items)[:k] == taken


@given(st.integers(), st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_uniform_stays_within_its_bounds(seed, low, width):
    assert low <= Draw(seed).uniform(low, low + width) <= low + width


@pytest.mark.parametrize("n", [0, -3])
def test_an_empty_range_is_refused(n):
    with pytest.raises(ValueError, match=rf"integer\(n\) needs n >= 1, but got {n}"):
        Draw(0).integer(n)
    with pytest.raises(ValueError, match="needs n >= 1"):
        Draw(0).choice([])
