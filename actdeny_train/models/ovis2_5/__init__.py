"""The Ovis2.5 family."""

from actdeny_train.models.ovis2_5.family import Ovis25, load

__all__ = ["Ovis25", "load"]
