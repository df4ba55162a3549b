"""Errors for users. Tools print them as one paragraph, without a traceback.

Every message says what is wrong, where (config path, file or clip id), what was found, what is allowed, and what to do next.
A broken invariant of our own code is an ``AssertionError``, not one of these.
"""

import difflib
from collections.abc import Iterable


class ActdenyError(Exception):
    """Base of all errors that a user can mend; ``cli`` prints its text and exits with status 2."""


class ConfigError(ActdenyError):
    """A configuration file or an override on the command line is wrong."""


class DataError(ActdenyError):
    """A video, an annotation file or a manifest is missing, malformed or contradicts itself."""


class CheckpointError(ActdenyError):
    """Model weights, a tokenizer or a saved training state cannot be found, read or matched."""


def near_misses(name: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x' or 'y'?"`` for names in ``allowed`` close to ``name``, or an empty string.

    The leading space lets callers append it to a sentence.
    """
    close = difflib.get_close_matches(name, list(allowed), n=2, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
