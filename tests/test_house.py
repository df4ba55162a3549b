"""The rules of the house that no tool knows: what the wheel holds, what lies in git, and that what the README names exists."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from actdeny_train import config

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "actdeny_train"
PAGES = ("README.md", "CONTRIBUTING.md", "checkpoints/README.md")
MAX_LINES = 400
MAX_BYTES = 512 * 1024
WEIGHTS_AND_VIDEOS = {".avi", ".bin", ".ckpt", ".gguf", ".mkv", ".mov", ".mp4", ".pt", ".pth", ".safetensors", ".webm"}
VAGUE_NAMES = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X")


@cache
def files() -> tuple[str, ...]:
    """Return the paths that are in git or would be after ``git add .``; skips where there is no checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [git, "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return tuple(sorted({path for path in listed if (ROOT / path).is_file()}))


@cache
def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def of_package(suffix: str = "") -> list[str]:
    return [path for path in files() if path.startswith(f"{PACKAGE}/") and path.endswith(suffix)]


# The wheel


def test_the_wheel_is_set_up_to_hold_the_package_alone_with_all_its_data() -> None:
    find = settings()["tool"]["setuptools"]["packages"]["find"]
    assert find == {"where": ["."], "include": [f"{PACKAGE}*"]}
    folders = {path.split("/")[0] for path in files() if "/" in path}
    assert [folder for folder in sorted(folders) if fnmatch(folder, find["include"][0])] == [PACKAGE]
    patterns = settings()["tool"]["setuptools"]["package-data"]["*"]
    data = [path for path in of_package() if not path.endswith(".py")]
    left_out = [path for path in data if not any(fnmatch(Path(path).name, pattern) for pattern in patterns)]
    assert data and not left_out, f"tool.setuptools.package-data does not cover {left_out}"


def test_the_wheel_holds_the_package_alone_with_all_its_data(tmp_path: Path) -> None:
    wanted = settings()["build-system"]["requires"][0]
    if int(importlib.metadata.version("setuptools").split(".")[0]) < int(wanted.split(">=")[1]):
        pytest.skip(f"building needs {wanted}, and tests install nothing")
    source = tmp_path / "source"
    for path in files():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, source / path)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == set(of_package())
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


# The command line


@pytest.mark.parametrize("tool", sorted(path.name for path in (ROOT / "tools").glob("*.py")))
def test_every_tool_answers_help_from_any_directory(tool: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / tool, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {tool}")
    assert not any(tmp_path.iterdir()), "asking for help wrote a file"


# Layers


def test_every_part_of_the_package_has_its_layer() -> None:
    (contract,) = settings()["tool"]["importlinter"]["contracts"]
    layers = {name.strip() for line in contract["layers"] for name in line.split("|")}
    parts = {path.removeprefix(f"{PACKAGE}/").split("/")[0].removesuffix(".py") for path in of_package(".py")}
    assert layers == {f"{PACKAGE}.{part}" for part in parts - {"__init__"}} | {"callbacks"}


# What lies in git


def test_no_python_file_is_too_long() -> None:
    lengths = {path: len(read(path).splitlines()) for path in files() if path.endswith(".py")}
    assert not {path: length for path, length in lengths.items() if length > MAX_LINES}


def test_no_file_is_too_large() -> None:
    sizes = {path: (ROOT / path).stat().st_size for path in files()}
    assert not {path: size for path, size in sizes.items() if size > MAX_BYTES}


def test_no_weights_videos_or_notebooks() -> None:
    barred = WEIGHTS_AND_VIDEOS | {".ipynb"}
    assert not [p for p in files() if Path(p).suffix.lower() in barred and not p.startswith("tests/goldens/")]


def test_what_the_tools_write_stays_out_of_git() -> None:
    """Or `make test` after `make demo` would find weights among the sources."""
    files()  # skips outside a checkout
    written = [f"{folder}/demo/model.safetensors" for folder in ("data", "checkpoints", "runs", "exports")]
    found = subprocess.run(["git", "check-ignore", *written], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout.split() == written


def test_no_vague_names() -> None:
    named = [path for path in files() if path.endswith(".py")]
    assert not [path for path in named if VAGUE_NAMES & {*Path(path).with_suffix("").parts}]


def test_nothing_is_left_for_later() -> None:
    pattern = re.compile(rf"\b({'|'.join(UNFINISHED)})\b")
    texts = [path for path in files() if Path(path).suffix in {".py", ".md", ".toml", ".yaml"}]
    assert not [path for path in texts if pattern.search(read(path))]


def test_test_folders_are_no_packages() -> None:
    folders = {Path(path).parent for path in files() if re.match(r"tests/(.*/)?test_[^/]*\.py$", path)}
    assert not [folder for folder in folders if (ROOT / folder / "__init__.py").exists()]


# What the pages say


@pytest.mark.parametrize("page", PAGES)
def test_tools_configs_and_links_on_a_page_exist(page: str) -> None:
    named = set(re.findall(r"\b(?:tools|configs|actdeny_train|callbacks|tests)/[\w/]*\w\.(?:py|yaml)", read(page)))
    linked = {link for link in re.findall(r"\]\(([^)#]+)", read(page)) if "://" not in link}
    missing = [path for path in named if not (ROOT / path).is_file()]
    missing += [link for link in linked if not (ROOT / page).parent.joinpath(link).exists()]
    assert not missing, f"{page} names {missing}"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_on_a_page_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", read(page))) <= targets


@pytest.mark.parametrize("page", PAGES)
def test_dotted_paths_on_a_page_exist(page: str) -> None:
    for path in set(re.findall(rf"\b(?:{PACKAGE}|callbacks)\.[\w.]*\w", read(page))):
        module, _, name = path.rpartition(".")
        place = ROOT.joinpath(*path.split("."))
        if place.is_dir() or place.with_suffix(".py").is_file():
            continue
        source = ROOT.joinpath(*module.split("."))
        source = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
        assert source.is_file() and re.search(rf"\b{name}\b", source.read_text(encoding="utf-8")), f"{page}: {path}"


def test_configs_on_the_readme_are_sound(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", read("README.md"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        (tmp_path / "readme.yaml").write_text(block, encoding="utf-8")
        config.check(tmp_path / "readme.yaml")


def test_the_readme_opens_with_the_two_commands() -> None:
    first = re.search(r"```sh\n(.*?)```", read("README.md"), flags=re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == ["make demo", "make test"]


def test_ci_runs_what_a_contributor_runs() -> None:
    commands = [line for line in read(".ci/run").splitlines() if line.startswith("make ")]
    assert commands == ["make check", "make test"]
    assert "rm -rf .venv" in read(".ci/run").splitlines()
