"""A value with its interval and the number it rests on: the one shape in which a metric leaves this package."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate in [0, 1], a mean of rates, or a statistic with a range of its own (a correlation, d').

    ``value`` is None where the metric is undefined (never 0, never NaN). ``low`` and ``high`` bound the interval; both are None
    where there is none. ``n`` counts the predictions behind the value (classes, where it is a mean over classes). ``reason``
    tells why the value or the interval is missing, or which predictions could not count; a value whose interval was not asked
    for has none.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str = ""

    def __post_init__(self) -> None:
        assert (self.low is None) == (self.high is None), f"half an interval: [{self.low}, {self.high}]"
        assert self.value is not None or self.low is None, f"an interval without a value: [{self.low}, {self.high}]"
        assert self.value is not None or self.reason, "an undefined value needs a reason"
        assert all(math.isfinite(x) for x in (self.value, self.low, self.high) if x is not None), f"not finite: {self}"

    def to_json(self) -> dict[str, Any]:
        """Return ``{"value", "low", "high", "n"}``, and ``"reason"`` where there is one."""
        reason = {"reason": self.reason} if self.reason else {}
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n, **reason}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Estimate":
        """Inverse of ``to_json``. Raises TypeError on a dict of another shape."""
        return cls(**values)
