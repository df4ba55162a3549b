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


def _dataset_of(name: str) -> str | None:
    module = importlib.import_module(f"{datasets.__name__}.{name}")
    for made in vars(module).values():
        is_dataset = inspect.isclass(made) and issubclass(made, ClipDataModule) and not inspect.isabstract(made)
        if is_dataset and made.__module__ == module.__name__:
            return f"{made.__module__}.{made.__qualname__}"
    return None
