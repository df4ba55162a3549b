"""Datasets by name: ``hmdb51`` is the class of this package's module ``hmdb51``."""

import importlib
import inspect
import pkgutil

from actdeny_train import datasets
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.errors import ConfigError, near_misses


def find_dataset(name: str) -> str:
    """Return the dotted path of the dataset ``name``; a dotted path is returned as it is.

    Raises ConfigError, naming those there are, where no module of that name has a dataset.
    """
    if "." in name:
        return name
    known = {info.name for info in pkgutil.iter_modules(datasets.__path__) if not info.ispkg}
    found = _dataset_of(name) if name in known else None
    if found is None:
        names = sorted(one for one in known if _dataset_of(one))
        raise ConfigError(
            f"There is no dataset {name!r}.{near_misses(name, names)} Name one of {', '.join(names)}, or the dotted path of a class."
        )
    return found


def says_rather_than_refuses(target: str) -> dict[str, bool]:
    """Return the setting by which a dataset reads lists of another size than the published ones, if it has one.

    Preparing counts them beside the published figures, and says what differs.
    """
    module, _, name = target.rpartition(".")
    try:
        made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        return {}  # reading the command line tells what is wrong with it
    return {"official_sizes": False} if "official_sizes" in inspect.signature(made).parameters else {}


def _dataset_of(name: str) -> str | None:
    module = importlib.import_module(f"{datasets.__name__}.{name}")
    for made in vars(module).values():
        is_dataset = inspect.isclass(made) and issubclass(made, ClipDataModule) and not inspect.isabstract(made)
        if is_dataset and made.__module__ == module.__name__:
            return f"{made.__module__}.{made.__qualname__}"
    return None
