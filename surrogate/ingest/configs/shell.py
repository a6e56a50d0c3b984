"""Follow a shell script without running anything: what it sets, which branches it takes, which commands it issues.

The script is read as if started with an empty environment and no arguments; `#SBATCH` lines give what Slurm would set.
Where a condition cannot be decided, every branch is followed and only what they agree on is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from surrogate.ingest.configs.scalars import opaque
from surrogate.ingest.configs.shell_expand import Content, Environment, is_known, matches
from surrogate.ingest.configs.shell_lexer import HEREDOC, Word, extract_heredocs, literal, tokenize
from surrogate.ingest.configs.shell_parser import Body, Case, Chain, For, Function, If, Node, Simple, Test, While, parse
from surrogate.ingest.configs.shell_test import both, decide, either

_ASSIGN: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_DECLARERS: Final = frozenset({"export", "declare", "local", "readonly", "typeset", "env"})
_SHELLS: Final = frozenset({"bash", "sh", "/bin/bash", "/bin/sh", "zsh"})
_BROKEN_LINE: Final = re.compile(r"\n(?=\s*--)")  # no command starts with two dashes
_RUNS_TEXT: Final = re.compile(r"-[a-z]*c")
_PROBES: Final = frozenset({"grep", "which", "command", "type", "hash", "nvidia-smi", "pgrep", "ping", "[", "test"})
_MAX_STEPS: Final = 20_000
_MAX_CALLS: Final = 12
_MAX_SOURCES: Final = 20
SourceReader = Callable[[str], str | None]


@dataclass(slots=True)
class ScriptReading:
    """What a script sets and does.

    Parameters
    ----------
    commands : list of list of str
        Every command with its expanded words, in order.
    files : dict of str to str
        Texts written through here-documents, by (expanded) file name.
    unread_sources : list of str
        Files that the script sources and that were not found.
    notes : list of str
        Choices made where the script alone does not decide.
    """

    environment: Environment
    commands: list[list[str]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    unread_sources: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_script(text: str, environment: Environment, source_reader: SourceReader | None = None) -> ScriptReading:
    """Follow the script in `text`; nothing is executed.

    Parameters
    ----------
    text : str
        The script.
    environment : Environment
        Variables known before it starts; changed in place.
    source_reader : callable, optional
        Returns the text of a sourced file by its expanded name, or None when it is not at hand.
    """
    follower = _Follower(ScriptReading(environment), source_reader or (lambda _name: None))
    follower.follow(text)
    return follower.reading


class _Follower:
    def __init__(self, reading: ScriptReading, source_reader: SourceReader) -> None:
        self.reading, self.source_reader = reading, source_reader
        self.environment = reading.environment
        self.functions: dict[str, Body] = {}
        self.steps = self.calls = self.sources = 0

    def follow(self, text: str) -> None:
        stripped, heredocs = extract_heredocs(text)
        offset = len(self.environment.heredocs)
        self.environment.heredocs += heredocs
        if offset:
            stripped = re.sub(f"{HEREDOC}(\\d+)", lambda found: f"{HEREDOC}{int(found.group(1)) + offset}", stripped)
        self._run(parse(tokenize(stripped)))

    def _run(self, body: Body) -> bool | None:
        status: bool | None = None
        for node in body:
            self.steps += 1
            if self.steps > _MAX_STEPS or self.environment.budget < 0:
                self.reading.notes.append("the script is too long to follow to its end")
                break
            status = self._node(node)
        return status

    def _node(self, node: Node) -> bool | None:  # noqa: C901  one arm per node kind
        match node:
            case Simple():
                return self._simple(node)
            case Test():
                return self._test(node)
            case Chain():
                return self._chain(node)
            case If():
                self._if(node)
            case Case():
                self._case(node)
            case For():
                self._for(node)
            case While():
                self._while(node)
            case Function():
                self.functions[node.name] = node.body
        return None

    def _chain(self, node: Chain) -> bool | None:
        status = self._assumed(node.items[0][1])
        status = (not status) if node.negated and status is not None else status
        for operator, item in node.items[1:]:
            if not operator:
                status = self._assumed(item)
            elif status is None:
                self._branches([[item], []], f"`{operator}` after a command")
            elif (operator == "&&") == status:
                status = (both if operator == "&&" else either)(status, self._assumed(item))
        return status

    def _assumed(self, node: Node) -> bool | None:
        """Run a node of an `&&` or `||` list: a command succeeds, unless its purpose is to ask something."""
        status = self._node(node)
        if status is not None or not isinstance(node, Simple) or not node.words:
            return status
        return None if literal(node.words[0]) in _PROBES else True

    def _if(self, node: If) -> None:
        open_bodies: list[Body] = []
        for condition, body in node.branches:
            holds = self._run(condition) if condition else True
            if holds is not False:
                open_bodies.append(body)
            if holds:
                break
        else:
            open_bodies.append([])
        self._branches(open_bodies, "a condition")

    def _case(self, node: Case) -> None:
        value = self.environment.text(node.word)
        open_bodies: list[Body] = []
        for patterns, body in node.arms:
            found = [matches(value, self.environment.text(pattern)) for pattern in patterns]
            if True in found or None in found:
                open_bodies.append(body)
            if True in found:
                break
        self._branches(open_bodies or [[]], "a `case`")

    def _branches(self, bodies: Sequence[Body], why: str) -> None:
        if len(bodies) == 1:
            self._run(bodies[0])
            return
        before = self.environment.variables
        results: list[dict[str, Content]] = []
        for body in bodies:
            self.environment.variables = dict(before)
            self._run(body)
            results.append(self.environment.variables)
        self.environment.variables = self._agreed(results, why)

    def _agreed(self, results: Sequence[dict[str, Content]], why: str) -> dict[str, Content]:
        agreed: dict[str, Content] = {}
        for name in dict.fromkeys(name for result in results for name in result):
            values = [result.get(name) for result in results]
            first = values[-1]
            if all(value == first for value in values) and first is not None:
                agreed[name] = first
                continue
            common = _common_start(values)
            agreed[name] = common if common else opaque(f"{name}, which depends on {why}")
            if common:
                self.reading.notes.append(f"`{name}`: what {why} adds is left out, it cannot be decided from the text")
        return agreed

    def _for(self, node: For) -> None:
        items = [item for word in node.words for item in self.environment.fields(word)]
        if not items:
            return
        if node.name:
            value = items[0] if len(items) == 1 else opaque(f"{node.name}, looped over {' '.join(items)[:40]}")
            self.environment.assign(node.name, value)
        self._run(node.body)

    def _while(self, node: While) -> None:
        holds = self._run(node.condition)
        if holds is not node.until or holds is None:
            self._run(node.body)

    def _test(self, node: Test) -> bool | None:
        if node.math is not None:
            number = self._arithmetic(node.math)
            return None if not is_known(number) else number != "0"
        items = [item if isinstance(item, str) else self.environment.text(item) for item in node.items]
        return decide(items)

    def _arithmetic(self, text: str) -> str:
        assigned = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*([-+*/%]?)=([^=].*)", text, re.DOTALL)
        if assigned is None:
            return self.environment.number(text)
        name, operator, right = assigned.groups()
        value = self.environment.number(f"{name} {operator} ({right})" if operator else right)
        self.environment.assign(name, value)
        return value

    def _simple(self, node: Simple) -> bool | None:
        for array in node.arrays:
            items = [field for word in array.items for field in self.environment.fields(word)]
            self.environment.assign(array.text, items, append=array.append)
        words = self._assign_leading(node.words)
        if not words:
            return True
        if node.heredoc is not None and node.heredoc < len(self.environment.heredocs):
            self._take_heredoc(node, words)
        argv = [field for word in words for field in self.environment.fields(word)]
        if not argv:
            return None
        return self._command(argv, words)

    def _assign_leading(self, words: Sequence[Word]) -> list[Word]:
        rest = list(words)
        while rest and self._assign(rest[0]):
            rest.pop(0)
        return rest

    def _assign(self, word: Word) -> bool:
        if not word or word[0].kind != "text" or word[0].quoted:
            return False
        found = _ASSIGN.match(word[0].text)
        if found is None:
            return False
        name, append, start = found.groups()
        value = start + self.environment.text(word[1:])
        self.environment.assign(name, value, append=bool(append))
        return True

    def _take_heredoc(self, node: Simple, words: Sequence[Word]) -> None:
        text = self.environment.heredoc_text(node.heredoc or 0)
        if node.target is not None:
            self.reading.files[self.environment.text(node.target)] = text
        elif self.environment.text(words[0]) == "read":
            self.environment.assign(self.environment.text(words[-1]), text)

    def _command(self, argv: list[str], words: Sequence[Word]) -> bool | None:
        name = argv[0]
        if name in ("[", "test", "true", ":", "false"):
            items = [self.environment.text(word) for word in words[1:]]
            return name != "false" if name in ("true", ":", "false") else decide(items[:-1] if name == "[" else items)
        if name in _DECLARERS:
            for word in words[1:]:
                self._assign(word)
        elif name in ("source", ".") and len(argv) > 1:
            self._source(argv[1])
        elif name in self.functions:
            self._call(argv)
        else:
            self._set_by_builtin(argv)
        self.reading.commands.append(self._without_inner_script(argv))
        return None

    def _set_by_builtin(self, argv: list[str]) -> None:
        for argument in argv[1:]:
            if argv[0] == "let":
                self._arithmetic(argument)
            elif argv[0] == "unset":
                self.environment.variables.pop(argument, None)

    def _without_inner_script(self, argv: list[str]) -> list[str]:
        """Follow the script inside `eval ...` or `bash -c '...'`; return the command without it."""
        shell = next((i for i, word in enumerate(argv[:-2]) if word in _SHELLS and argv[i + 1].startswith("-")), None)
        start = 1 if argv[0] == "eval" else None
        if shell is not None:
            start = next((i + 1 for i in range(shell + 1, len(argv) - 1) if _RUNS_TEXT.fullmatch(argv[i])), None)
        if start is None or self.calls >= _MAX_CALLS:
            return argv
        self.calls += 1
        inner = " ".join(argv[start:]) if shell is None else argv[start]
        self.follow(_BROKEN_LINE.sub(" ", inner))
        self.calls -= 1
        return argv[:start]

    def _call(self, argv: list[str]) -> None:
        if self.calls >= _MAX_CALLS:
            return
        self.calls += 1
        for index, argument in enumerate(argv[1:20], start=1):
            self.environment.assign(str(index), argument)
        self.environment.assign("@", argv[1:])
        self._run(self.functions[argv[0]])
        self.calls -= 1

    def _source(self, name: str) -> None:
        self.sources += 1
        text = self.source_reader(name) if self.sources <= _MAX_SOURCES else None
        if text is None:
            self.reading.unread_sources.append(name)
        else:
            self.follow(text)


def _common_start(values: Sequence[Content | None]) -> Content | None:
    if all(isinstance(value, list) for value in values):
        lists = [value for value in values if isinstance(value, list)]
        shortest = min(lists, key=len)
        same = next((i for i, item in enumerate(shortest) if any(other[i] != item for other in lists)), len(shortest))
        return shortest[:same]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values):
        return None
    shortest_text = min(texts, key=len)
    extends = all(text.startswith(shortest_text) for text in texts)
    return shortest_text if extends and "--" in shortest_text else None
