"""A disk that can lose its power: a page cache, which is a real directory, and beside it what would survive.

The content of a file survives once it is synced; before that a cut leaves it empty, torn, zeroed or whole. A name
survives once its directory is synced; of the changes since then any subset may have reached the platter, a rename
being one change. Every step of every operation can be the last one.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping

from indextables.store.local.disk import Disk

Tree = frozenset[tuple[str, bytes]]
"""What survives: the path of every file below the root, with its content."""


class PowerCut(BaseException):
    """The end of everything that was not synced. Every later call of the same disk raises it again."""


class ProcessKilled(BaseException):
    """The end of one process. The page cache lives on."""


@dataclasses.dataclass(eq=False)
class File:
    content: bytes = b""
    synced: bool = False

    def survivors(self) -> set[bytes]:
        if self.synced:
            return {self.content}
        return {b"", self.content[: len(self.content) // 2], bytes(len(self.content)), self.content}


@dataclasses.dataclass(eq=False)
class Directory:
    durable: dict[str, File | Directory] = dataclasses.field(default_factory=dict)
    current: dict[str, File | Directory] = dataclasses.field(default_factory=dict)
    pending: list[Mapping[str, File | Directory | None]] = dataclasses.field(default_factory=list)

    def change(self, names: Mapping[str, File | Directory | None]) -> None:
        self.pending.append(names)
        _apply(self.current, names)

    def sync(self) -> None:
        self.durable = dict(self.current)
        self.pending = []


class ModelDisk(Disk):
    """`cut_after` and `kill_after` count steps; None never comes."""

    def __init__(self, root: str, *, syncs_content: bool = True, syncs_directories: bool = True) -> None:
        self.cut_after: int | None = None
        self.kill_after: int | None = None
        self.steps = 0
        self._ended: BaseException | None = None
        self._root = root
        self._tree = Directory()
        self._syncs_content = syncs_content
        self._syncs_directories = syncs_directories
        os.mkdir(root)

    def restart_process(self) -> None:
        """A new process on the same page cache."""
        self.kill_after = None
        self._ended = None

    def write_new(self, path: str, chunks: Iterable[bytes]) -> None:
        self._check()
        with open(path, "xb") as real:
            file = File()
            self._change(path, file)
            self._step()
            for chunk in chunks:
                for half in (chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]):
                    real.write(half)
                    real.flush()
                    file.content += half
                    self._step()
            file.synced = self._syncs_content
            self._step()

    def link(self, source: str, target: str) -> None:
        self._check()
        os.link(source, target)
        self._change(target, self._find(source))
        self._step()

    def replace(self, source: str, target: str) -> None:
        self._check()
        assert os.path.dirname(source) == os.path.dirname(target)
        file = self._find(source)
        os.replace(source, target)
        self._directory_of(source).change({os.path.basename(source): None, os.path.basename(target): file})
        self._step()

    def unlink(self, path: str) -> None:
        self._check()
        os.unlink(path)
        self._change(path, None)
        self._step()

    def make_directory(self, path: str) -> None:
        self._check()
        os.mkdir(path)
        self._change(path, Directory())
        self._step()

    def remove_directory(self, path: str) -> None:
        """What a user may do behind the store's back."""
        os.rmdir(path)
        self._change(path, None)

    def sync_directory(self, path: str) -> None:
        self._check()
        if self._syncs_directories and (path == self._root or path.startswith(self._root + "/")):
            found = self._find(path)
            assert isinstance(found, Directory)
            found.sync()
        self._step()

    def survivors(self) -> set[Tree]:
        """Everything that may be there after a cut right now."""
        return set(_survivors(self._tree, ""))

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.cut_after:
            self._ended = PowerCut()
        elif self.steps == self.kill_after:
            self._ended = ProcessKilled()
        self._check()

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _change(self, path: str, node: File | Directory | None) -> None:
        self._directory_of(path).change({os.path.basename(path): node})

    def _directory_of(self, path: str) -> Directory:
        found = self._find(os.path.dirname(path))
        assert isinstance(found, Directory)
        return found

    def _find(self, path: str) -> File | Directory:
        node: File | Directory = self._tree
        for name in os.path.relpath(path, self._root).split("/"):
            if name != ".":
                assert isinstance(node, Directory)
                node = node.current[name]
        return node


def _survivors(directory: Directory, prefix: str) -> Iterator[Tree]:
    for chosen in itertools.product((False, True), repeat=len(directory.pending)):
        names = dict(directory.durable)
        for change, survives in zip(directory.pending, chosen, strict=True):
            if survives:
                _apply(names, change)
        branches = [set(_node_survivors(node, f"{prefix}{name}")) for name, node in names.items()]
        for branch in itertools.product(*branches):
            yield frozenset().union(*branch)


def _node_survivors(node: File | Directory, path: str) -> Iterator[Tree]:
    if isinstance(node, Directory):
        yield from _survivors(node, f"{path}/")
    else:
        for content in node.survivors():
            yield frozenset({(path, content)})


def _apply(names: dict[str, File | Directory], change: Mapping[str, File | Directory | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
