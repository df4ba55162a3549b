"""Configs: everything is checked before anything is built, and every mistake is named with its place."""

import importlib
import sys
from pathlib import Path

import pytest
import yaml

from actdeny_train import config
from actdeny_train.config import Component
from actdeny_train.errors import ConfigError

REPOSITORY = Path(__file__).parents[1]
SHIPPED = sorted((REPOSITORY / "configs").rglob("*.yaml"))
ENGINE = {"_target_": "garage.engines.Engine", "cylinders": 3}
CAR = {"name": "kit", "engine": ENGINE}


@pytest.fixture(autouse=True)
def garage(monkeypatch):
    """Put the made-up package of the tests on the path; return its parts."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "fixtures"))
    engines = importlib.import_module("garage.engines")
    engines.BUILT.clear()
    yield engines
    for name in [name for name in sys.modules if name.split(".")[0] == "garage"]:
        del sys.modules[name]


def car(**changed):
    """Parse a car with other values."""
    from garage.cars import Car

    return config.parse({**CAR, **changed}, Car, "car.yaml")


def write(folder, text):
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def fails(text, call, *arguments, **keywords):
    with pytest.raises(ConfigError) as caught:
        call(*arguments, **keywords)
    assert text in str(caught.value), str(caught.value)


# --- shipped files


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_shipped_config_is_sound(path):
    config.check(path)


def test_there_are_shipped_configs():
    assert SHIPPED


# --- from a file to values


def test_values_references_and_numbers_of_a_file(tmp_path):
    path = write(
        tmp_path, "lr: 1e-5\nsteps: 200\nname: run\nfolder: out/${name}\nnested: {lr: '${lr}'}\nday: 2024-01-01\n"
    )
    assert config.read(path) == {
        "lr": 1e-5,
        "steps": 200,
        "name": "run",
        "folder": "out/run",
        "nested": {"lr": 1e-5},
        "day": "2024-01-01",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "must hold a mapping (key: value lines), but holds ListConfig"),
        ("5", "is not valid YAML: Invalid loaded object type: int"),
        ("a:\n\tb: 1\n", "is not valid YAML: while scanning for the next token"),
        ("a: 1\na: 2\n", "is not valid YAML: while constructing a mapping"),
        ("a: ${b}\n", "a ${...} reference cannot be resolved: Interpolation key 'b' not found"),
        ("a: !!python/object/apply:os.getcwd []\n", "is not valid YAML: could not determine a constructor"),
    ],
)
def test_files_that_hold_no_config(tmp_path, text, message):
    fails(message, config.read, write(tmp_path, text))


def test_a_file_of_other_bytes(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"\xff\xfe\x00")
    fails("run.yaml is not valid YAML: 'utf-8' codec can't decode", config.read, tmp_path / "run.yaml")


def test_an_unknown_file_names_its_neighbour(tmp_path):
    path = write(tmp_path, "a: 1")
    with pytest.raises(ConfigError) as caught:
        config.read(tmp_path / "rum.yaml")
    assert str(caught.value) == (
        f"There is no config file '{tmp_path / 'rum.yaml'}'. Did you mean '{path}'? Give the path of a YAML file."
    )
    fails("There is no config file 'nowhere/run.yaml'. Give the path of a YAML file.", config.read, "nowhere/run.yaml")


# --- overrides


@pytest.mark.parametrize(
    ("override", "place", "value"),
    [
        ("lr.llm=1e-5", ("lr", "llm"), 1e-5),
        ("lr.vision=3", ("lr", "vision"), 3),
        ("lr=null", ("lr",), None),
        ("lr=", ("lr",), None),
        ("lr={vision: 1}", ("lr",), {"llm": 1, "vision": 1}),
        ("items.1.share=0.5", ("items", 1, "share"), 0.5),
        ("items.0=text", ("items", 0), "text"),
        ("items=[4, 5]", ("items",), [4, 5]),
        ("items=[]", ("items",), []),
        ("name='a: b'", ("name",), "a: b"),
        ("name=a=b", ("name",), "a=b"),
        ("name=true", ("name",), True),
        ("name=${lr.llm}", ("name",), 1),
        ("new.key=1", ("new", "key"), 1),
        ("part.size=2", ("part",), {"_target_": "one", "size": 2}),
        ("part={_target_: other, width: 2}", ("part",), {"_target_": "other", "width": 2}),
    ],
)
def test_an_override_replaces_one_value(tmp_path, override, place, value):
    text = "lr: {llm: 1}\nitems: [7, {share: 1}]\nname: run\npart: {_target_: one, size: 1}\n"
    before, after = yaml.safe_load(text), config.read(write(tmp_path, text), [override])
    found = after
    for key in place:
        found = found[key]
    assert found == value and type(found) is type(value)
    assert {k: v for k, v in after.items() if k != place[0]} == {k: v for k, v in before.items() if k != place[0]}


def test_later_overrides_win(tmp_path):
    assert config.read(write(tmp_path, "a: 1"), ["a=2", "a=3"]) == {"a": 3}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("name", "Cannot read the override 'name': write key=value, with dots for nesting (optimizer.lr.llm=1e-6)."),
        ("=3", "Cannot read the override '=3'"),
        ("items.7=1", "Cannot apply the override 'items.7=1': list index out of range"),
        ("items.first=1", "Cannot apply the override 'items.first=1': invalid literal for int()"),
        ("name=[1", "Cannot apply the override 'name=[1': while parsing a flow sequence"),
        ("name=a: b", "Cannot apply the override 'name=a: b': mapping values are not allowed in this context"),
    ],
)
def test_overrides_that_cannot_be_applied(tmp_path, override, message):
    fails(message, config.read, write(tmp_path, "name: run\nitems: [7]\n"), [override])


# --- from values to objects


def test_components_are_built_late_and_each_time_anew(garage):
    made = car(extras=[ENGINE, {**ENGINE, "cylinders": 8}])
    assert garage.BUILT == []
    assert isinstance(made.engine, Component) and made.engine.target == "garage.engines.Engine"
    assert made.engine.where == "engine" and repr(made.engine) == "Component(garage.engines.Engine)"
    assert [extra.build().cylinders for extra in made.extras] == [3, 8]
    assert made.engine.build() is not made.engine.build()
    assert garage.BUILT == ["engine of 3", "engine of 8", "engine of 3", "engine of 3"]


def test_other_objects_are_built_with_the_config(garage):
    assert car(spare=ENGINE).spare.cylinders == 3
    assert garage.BUILT == ["engine of 3"]


def test_targets_inside_targets_inside_targets(garage):
    tuned = "garage.engines.tuned"
    inner = {"_target_": tuned, "factor": 2, "engine": ENGINE}
    made = car(engine={"_target_": tuned, "factor": 3, "engine": inner})
    assert garage.BUILT == []
    assert made.engine.build().power_kw == 300
    fails(
        "car.yaml: unknown key 'engine.engine.engine.cylinder'. Did you mean 'cylinders'? Engine takes: cylinders, power_kw.",
        car,
        engine={"_target_": tuned, "factor": 3, "engine": {**inner, "engine": {**ENGINE, "cylinder": 1}}},
    )


def test_plain_values_become_what_the_hints_say(garage):
    from garage.cars import Radio

    made = car(
        radio={"stations": {"one": 98, "two": 1e2}},
        starter={"_target_": "garage.engines.Key", "teeth": [1, 2, 3]},
        size_m=[3, 1.5],
        colour="blue",
        fuel="power",
        papers="papers/kit.txt",
        seats=[{"teeth": [4]}, {"_target_": "garage.engines.Key"}],
        locks={"boot": {"teeth": [5]}},
        speed="slow",
    )
    assert made.radio == Radio(stations={"one": 98.0, "two": 100.0}) and type(made.radio.stations["one"]) is float
    assert made.starter == garage.Key((1, 2, 3))
    assert made.size_m == (3.0, 1.5) and type(made.size_m[0]) is float
    assert made.fuel is garage.Fuel.POWER and made.papers == Path("papers/kit.txt")
    assert made.seats == (garage.Key((4,)), garage.Key(()))
    assert made.locks == {"boot": garage.Key((5,))}
    assert made.speed == "slow" and car(speed=3).speed == 3
    assert car(radio=None).radio is None and car(locks=None).locks is None


def test_a_function_that_takes_anything_takes_anything():
    from garage.engines import anything

    target = f"{anything.__module__}.anything"
    assert config.parse({"_target_": target, "a": 1, "b": {"c": [2]}}, dict, "x.yaml") == {"a": 1, "b": {"c": [2]}}


def test_the_root_may_name_its_class_or_not():
    from garage.cars import Car

    assert config.parse({**CAR, "_target_": "garage.cars.Car"}, Car, "car.yaml").name == car().name == "kit"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        # names
        ({"dors": 4}, "car.yaml: unknown key 'dors'. Did you mean 'doors'? Car takes: name, engine, doors, "),
        ({"radio": {"stations": {}, "volum": 1}}, "car.yaml: unknown key 'radio.volum'. Did you mean 'volume'?"),
        ({"radio": {}}, "car.yaml: radio lacks stations, which Radio needs."),
        ({"engine": {"_target_": "garage.engines.Engine"}}, "car.yaml: engine lacks cylinders, which Engine needs."),
        ({"seats": [{"teeth": []}, {"tooth": []}]}, "car.yaml: unknown key 'seats.1.tooth'. Did you mean 'teeth'?"),
        ({"locks": {"boot": {"tooth": 1}}}, "car.yaml: unknown key 'locks.boot.tooth'. Did you mean 'teeth'?"),
        ({"radio": {"stations": {}, 7: 1}}, "car.yaml: unknown key 'radio.7'. Radio takes: stations, volume."),
        # types
        ({"doors": "four"}, 'car.yaml: doors must be int (Input should be a valid integer), but is "four". Correct the value'),
        ({"doors": "4"}, 'car.yaml: doors must be int (Input should be a valid integer), but is "4".'),
        ({"doors": 4.5}, "car.yaml: doors must be int"),
        ({"doors": True}, "car.yaml: doors must be int"),
        ({"doors": None}, "car.yaml: doors must be int (Input should be a valid integer), but is null."),
        ({"name": 7}, "car.yaml: name must be str (Input should be a valid string), but is 7."),
        ({"size_m": [1.0]}, "car.yaml: size_m must be tuple[float, float] (at 1: Field required), but is [1.0]."),
        ({"size_m": [1.0, "b"]}, 'car.yaml: size_m must be tuple[float, float] (at 1: Input should be a valid number), but is [1.0, "b"].'),
        ({"colour": "green"}, "car.yaml: colour must be Literal['red', 'blue'] (Input should be 'red' or 'blue'), but is \"green\"."),
        ({"fuel": "coal"}, "car.yaml: fuel must be Fuel (Input should be 'diesel' or 'power'), but is \"coal\"."),
        ({"speed": 1.5}, "car.yaml: speed must be int | str"),
        ({"radio": {"stations": {"one": "loud"}}}, "car.yaml: radio.stations must be dict[str, float] (at one: Input should be"),
        ({"radio": 3}, "car.yaml: radio must be "),
        ({"engine": 3}, "car.yaml: engine must be a mapping with the key _target_, but is 3."),
        ({"engine": {"cylinders": 3}}, 'car.yaml: engine must be a mapping with the key _target_, but is {"cylinders": 3}.'),
        ({"engine": None}, "car.yaml: engine must be a mapping with the key _target_, but is null."),
        ({"extras": [ENGINE, 3]}, "car.yaml: extras.1 must be a mapping with the key _target_, but is 3."),
        ({"extras": ENGINE}, "extras must be a tuple[Component[Engine], ...], but its _target_ garage.engines.Engine makes a Engine."),
        ({"name": [1] * 99}, f"name must be str (Input should be a valid string), but is [{'1, ' * 25}1..."),
        # dotted paths
        ({"engine": {"_target_": 3}}, "car.yaml: engine._target_ must be a dotted path such as actdeny_train."),
        ({"engine": {"_target_": ""}}, "car.yaml: engine._target_ must be a dotted path such as"),
        ({"engine": {"_target_": "garage.engines.Engin"}}, "but garage.engines has no 'Engin'. Did you mean 'Engine'?"),
        ({"engine": {"_target_": "garage.engine.Engine"}}, "but garage has no 'engine'. Did you mean 'engines'"),
        ({"engine": {"_target_": "garage.engines.Engine.starts"}}, "but garage.engines.Engine has no 'starts'."),
        ({"engine": {"_target_": "garag.engines.Engine"}}, "but there is no module 'garag'. Check the spelling."),
        ({"engine": {"_target_": "Engine"}}, "but there is no module 'Engine'. Check the spelling."),
        ({"engine": {"_target_": "garage.engines.LIMIT"}}, "which cannot be called. Name a class or a function."),
        ({"engine": {"_target_": "builtins.dict"}}, "engine must be a Engine, but its _target_ builtins.dict makes a dict."),
        # kinds
        ({"engine": {"_target_": "garage.engines.Key"}}, "engine must be a Engine, but its _target_ garage.engines.Key makes a Key."),
        ({"extras": [{"_target_": "garage.engines.anything"}]}, "extras.0 must be a Engine, but its _target_ garage.engines.anything make"),
        ({"spare": {"_target_": "garage.engines.Key"}}, "car.yaml: spare must be a Engine, but its _target_"),
        ({"starter": ENGINE}, "car.yaml: starter must be a Starter, but its _target_ garage.engines.Engine makes a Engine."),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place_before_anything_is_built(garage, changed, message):
    fails(message, car, **changed)
    assert garage.BUILT == []


def test_a_subclass_and_a_function_may_make_a_component():
    assert car(engine={**ENGINE, "_target_": "garage.engines.Turbo"}).engine.build().cylinders == 3


def test_a_function_without_a_signature():
    fails(
        "x.yaml: _target_ names dict, whose arguments cannot be checked.",
        config.parse,
        {"_target_": "builtins.dict"},
        dict,
        "x.yaml",
    )


def test_a_module_that_is_found_only_by_looking_gives_near_misses(garage):
    """A module that nothing has imported yet is no attribute of its package."""
    assert not hasattr(sys.modules["garage"], "cars")
    fails(
        "but garage has no 'car'. Did you mean 'cars'?", config.parse, {"_target_": "garage.car.Car"}, object, "x.yaml"
    )


def test_a_target_whose_module_needs_a_missing_package(tmp_path, monkeypatch):
    (tmp_path / "needy.py").write_text("import need\n\n\ndef make(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = "x.yaml: importing needy.make needs the package 'need', which is not installed."
    fails(message, config.parse, {"_target_": "needy.make"}, object, "x.yaml")


def test_the_root_must_be_of_the_right_class():
    from garage.cars import Car

    fails(
        "car.yaml: the top level must be a Car, but its _target_ garage.engines.Engine makes a Engine.",
        config.parse,
        ENGINE,
        Car,
        "car.yaml",
    )
    fails(
        "car.yaml describes a dict, but a Car is needed here. Use a config whose first key is _target_: garage.cars.Car.",
        config.parse,
        {"_target_": "garage.engines.unmarked"},
        Car,
        "car.yaml",
    )


def test_check_builds_nothing_and_needs_a_target(garage, tmp_path):
    path = write(tmp_path, yaml.safe_dump({**CAR, "_target_": "garage.cars.Car", "spare": ENGINE}))
    config.check(path)
    assert garage.BUILT == []
    fails("unknown key 'spare.wheels'", config.check, path, ["spare.wheels=4"])
    fails("must be int", config.check, path, ["doors=many"])
    bare = write(tmp_path, "name: kit\n")
    fails("has no _target_ at its top, so nothing says what the file configures.", config.check, bare)


def test_a_config_written_out_reads_the_same(tmp_path):
    """What a run saves beside its results is plain YAML, and PyYAML reads other numbers than OmegaConf (1e-5 is text to it)."""
    values = config.read(
        write(tmp_path, "lr: {llm: 1e-5, vision: 2e-07}\nsteps: 3\nname: '7'\nday: 2024-01-01\n"), ["lr.llm=2e-7"]
    )
    assert values["lr"] == {"llm": 2e-7, "vision": 2e-7}
    assert yaml.safe_load(yaml.safe_dump(values)) == values
    assert config.read(write(tmp_path, yaml.safe_dump(values))) == values
