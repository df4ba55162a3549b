"""A page parsed into elements, with nothing forgiven."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "img", "wbr", "br", "input", "link", "hr"}


@dataclass
class Node:
    """An element: ``parts`` are texts and elements in their order."""

    tag: str
    attributes: dict[str, str]
    parts: list["Node | str"] = field(default_factory=list)

    def walk(self) -> "Iterator[Node]":
        yield self
        for part in self.parts:
            if isinstance(part, Node):
                yield from part.walk()

    def all(self, tag: str, **attributes: str) -> "list[Node]":
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [n for n in self.walk() if n.tag == tag and wanted.items() <= n.attributes.items()]

    def one(self, tag: str, **attributes: str) -> "Node":
        (found,) = self.all(tag, **attributes)
        return found

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)


class Tree(HTMLParser):
    """Parses a page in which every element but the void ones is closed; asserts that it is."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.root = Node("root", {})
        self.open = [self.root]
        self.feed(page)
        self.close()
        assert self.open == [self.root], f"not closed: {[n.tag for n in self.open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} repeats an attribute: {names}"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def parse(file: Path) -> Node:
    return Tree(file.read_text(encoding="utf-8")).root
