"""Shell tokens to a tree of commands, conditionals, loops and functions; broken syntax gives a smaller tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from surrogate.ingest.configs.shell_lexer import HEREDOC, Token, Word, literal

_MAX_DEPTH: Final = 60
_ENDERS: Final = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_REDIRECTS: Final = frozenset({">", ">>", "&>", "&>>", ">&", "<", "<<", "<<<", "<&"})


@dataclass(slots=True)
class Simple:
    """A command: words in order (assignments among them), arrays, where output goes, the here-document it reads."""

    words: list[Word] = field(default_factory=list)
    arrays: list[Token] = field(default_factory=list)
    target: Word | None = None
    heredoc: int | None = None


@dataclass(slots=True)
class Test:
    """`[[ ... ]]` or `(( ... ))`: words and operators in order, or the text of the arithmetic."""

    items: list[Word | str] = field(default_factory=list)
    math: str | None = None


@dataclass(slots=True)
class If:
    """Branches of (condition, body); the else body is last with an empty condition."""

    branches: list[tuple[Body, Body]] = field(default_factory=list)


@dataclass(slots=True)
class Case:
    """`case word in patterns) body ;; ... esac`."""

    word: Word
    arms: list[tuple[list[Word], Body]] = field(default_factory=list)


@dataclass(slots=True)
class For:
    """`for name in words; do body; done`."""

    name: str
    words: list[Word]
    body: Body


@dataclass(slots=True)
class While:
    """`while condition; do body; done` (`until` is the same with the condition turned)."""

    condition: Body
    body: Body
    until: bool


@dataclass(slots=True)
class Function:
    """`name() { body; }`."""

    name: str
    body: Body


@dataclass(slots=True)
class Chain:
    """`a && b || c`: the first item, then (operator, item); `negated` holds the items after a `!`."""

    items: list[tuple[str, Node]]
    negated: bool = False


Node = Simple | Test | If | Case | For | While | Function | Chain
Body = list[Node]


def parse(tokens: Iterable[Token]) -> Body:
    """Return the commands of a script."""
    parser = _Parser(list(tokens))
    body: Body = []
    while parser.position < len(parser.tokens):
        body += parser.body(frozenset())
        parser.position += 1
    return body


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.position, self.depth = tokens, 0, 0
        self._compound: dict[str, Callable[[], Node]] = {
            "if": self._if,
            "case": self._case,
            "for": self._for,
            "select": self._for,
            "while": self._while,
            "until": self._while,
            "[[": self._test,
            "{": self._braces,
            "function": self._braces,
        }

    def _token(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _keyword(self) -> str | None:
        token = self._token()
        return literal(token.word) if token is not None and token.kind == "word" else None

    def _is_op(self, *texts: str) -> bool:
        token = self._token()
        return token is not None and token.kind == "op" and token.text in texts

    def body(self, enders: frozenset[str]) -> Body:
        """Read commands up to (not over) one of the ending keywords."""
        nodes: Body = []
        self.depth += 1
        while (token := self._token()) is not None and self.depth < _MAX_DEPTH:
            if token.kind == "newline" or self._is_op(";", "&", "|", "|&"):
                self.position += 1
            elif self._keyword() in (enders or _ENDERS) or self._is_op(";;", ")"):
                break
            else:
                before = self.position
                nodes.append(self._chain())
                self.position = max(self.position, before + 1)
        self.depth -= 1
        return nodes

    def _chain(self) -> Node:
        negated = self._skip_keyword("!")
        items = [("", self._command())]
        while self._is_op("&&", "||"):
            operator = self.tokens[self.position].text
            self.position += 1
            while (token := self._token()) is not None and token.kind == "newline":
                self.position += 1
            if self._token() is None:
                break
            items.append((operator, self._command()))
        return Chain(items, negated) if negated or len(items) > 1 else items[0][1]

    def _command(self) -> Node:
        self._skip_keyword("time")
        token = self._token()
        if token is not None and token.kind == "math":
            self.position += 1
            return Test(math=token.text)
        compound = self._compound.get(self._keyword() or "")
        if compound is not None:
            return compound()
        if self._is_op("("):
            self.position += 1
            inner = self.body(frozenset())
            self.position += 1
            return Chain([("", node) for node in inner] or [("", Simple())])
        return self._simple()

    def _skip_keyword(self, word: str) -> bool:
        found = self._keyword() == word
        self.position += found
        return found

    def _if(self) -> If:
        node = If()
        while self._keyword() in ("if", "elif"):
            self.position += 1
            condition = self.body(frozenset({"then", "fi"}))
            self._skip_keyword("then")
            node.branches.append((condition, self.body(frozenset({"elif", "else", "fi"}))))
        if self._skip_keyword("else"):
            node.branches.append(([], self.body(frozenset({"fi"}))))
        self._skip_keyword("fi")
        return node

    def _case(self) -> Case:
        self.position += 1
        token = self._token()
        node = Case(token.word if token is not None else ())
        self.position += 1
        self._skip_blank()
        self._skip_keyword("in")
        self._skip_blank()
        while self._token() is not None and self._keyword() != "esac":
            before = self.position
            patterns = self._patterns()
            node.arms.append((patterns, self.body(frozenset({"esac"}))))
            if self._is_op(";;"):
                self.position += 1
            self._skip_blank()
            if self.position == before:
                break
        self._skip_keyword("esac")
        return node

    def _patterns(self) -> list[Word]:
        patterns: list[Word] = []
        while (token := self._token()) is not None and not self._is_op(")") and token.kind != "newline":
            if token.kind == "word":
                patterns.append(token.word)
            self.position += 1
        self.position += 1
        return patterns

    def _skip_blank(self) -> None:
        while (token := self._token()) is not None and token.kind == "newline":
            self.position += 1

    def _for(self) -> Node:
        self.position += 1
        name = self._keyword() or ""
        self.position += 1
        words: list[Word] = []
        self._skip_keyword("in")
        while (token := self._token()) is not None and token.kind == "word" and self._keyword() != "do":
            words.append(token.word)
            self.position += 1
        return For(name, words, self._loop_body())

    def _while(self) -> While:
        until = self._keyword() == "until"
        self.position += 1
        condition = self.body(frozenset({"do", "done"}))
        return While(condition, self._loop_body(), until)

    def _loop_body(self) -> Body:
        while (token := self._token()) is not None and (token.kind == "newline" or self._is_op(";")):
            self.position += 1
        self._skip_keyword("do")
        body = self.body(frozenset({"done"}))
        self._skip_keyword("done")
        return body

    def _test(self) -> Test:
        self.position += 1
        node = Test()
        while (token := self._token()) is not None and self._keyword() != "]]" and token.kind != "newline":
            node.items.append(token.word if token.kind == "word" else token.text)
            self.position += 1
        self._skip_keyword("]]")
        return node

    def _braces(self) -> Node:
        name = ""
        if self._skip_keyword("function"):
            name = self._keyword() or ""
            self.position += 1
            while self._is_op("(", ")"):
                self.position += 1
            self._skip_blank()
        self._skip_keyword("{")
        inner = self.body(frozenset({"}"}))
        self._skip_keyword("}")
        if name:
            return Function(name, inner)
        return Chain([("", node) for node in inner] or [("", Simple())])

    def _simple(self) -> Node:
        node = Simple()
        while (token := self._token()) is not None and token.kind != "newline":
            if self._is_op("(") and len(node.words) == 1 and not node.arrays:
                return self._function(literal(node.words[0]) or "")
            if token.kind == "op" and token.text not in _REDIRECTS:
                break
            self.position += 1
            if token.kind == "op":
                self._redirect(node, token.text)
            elif token.kind == "array":
                node.arrays.append(token)
            elif token.kind == "word":
                node.words.append(token.word)
        return node

    def _redirect(self, node: Simple, operator: str) -> None:
        token = self._token()
        if token is None or token.kind != "word":
            return
        self.position += 1
        mark = literal(token.word) or ""
        if operator == "<<" and mark.startswith(HEREDOC) and mark[1:].isdecimal():
            node.heredoc = int(mark[1:])
        elif operator in (">", ">>"):
            node.target = token.word

    def _function(self, name: str) -> Node:
        while self._is_op("(", ")"):
            self.position += 1
        self._skip_blank()
        self._skip_keyword("{")
        body = self.body(frozenset({"}"}))
        self._skip_keyword("}")
        return Function(name, body)
