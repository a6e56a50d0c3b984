"""Shell text to tokens: words that remember their quoting, array literals, operators. Nothing is ever executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

PartKind = Literal["text", "var", "command", "math"]
HEREDOC: Final = "\ue002"
_OPERATORS: Final = (
    ";;",
    "&&",
    "||",
    "|&",
    "&>>",
    "&>",
    ">>",
    ">&",
    "<<<",
    "<<",
    "<&",
    ";",
    "|",
    "&",
    "(",
    ")",
    "<",
    ">",
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_ASSIGN: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_HEREDOC_START: Final = re.compile(r"(?<!<)<<-?\s*(['\"\\]?)([A-Za-z_]\w*)\1?")
_SPECIAL: Final = "#?@*$!-0123456789"


class Part(NamedTuple):
    """A piece of a word: text, `${text}`, `$(text)` or `$((text))`."""

    kind: PartKind
    text: str
    quoted: bool


Word = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an array assignment `name=(items)`, an operator, a `((text))`, or a line end."""

    kind: Literal["word", "array", "op", "math", "newline"]
    text: str = ""
    word: Word = ()
    items: tuple[Word, ...] = ()
    append: bool = False


@dataclass(frozen=True, slots=True)
class Heredoc:
    """The body of a `<<EOT` and whether variables in it are expanded."""

    body: str
    expand: bool


def literal(word: Word) -> str | None:
    """Return the word's text when it is plain and unquoted, else None."""
    if len(word) == 1 and word[0].kind == "text" and not word[0].quoted:
        return word[0].text
    return None


def extract_heredocs(text: str) -> tuple[str, list[Heredoc]]:
    """Take the bodies of `<<EOT` blocks out of `text`; the operator then points at the list by number."""
    kept: list[str] = []
    heredocs: list[Heredoc] = []
    lines = iter(text.replace("\r\n", "\n").replace(HEREDOC, "").split("\n"))
    for line in lines:
        found = None if line.lstrip().startswith("#") else _HEREDOC_START.search(line)
        if found is None:
            kept.append(line)
            continue
        body = []
        for inner in lines:
            if inner.strip() == found.group(2):
                break
            body.append(inner)
        kept.append(f"{line[: found.start()]}<<{HEREDOC}{len(heredocs)}{line[found.end() :]}")
        heredocs.append(Heredoc("\n".join(body), expand=not found.group(1)))
    return "\n".join(kept), heredocs


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of shell text; unbalanced quotes run to the end instead of failing."""
    return _Lexer(text).tokens()


def word_parts(text: str, *, quoted: bool = True) -> Word:
    """Return the parts of text in which only `$` and backquotes are special (a here-document, a default)."""
    lexer = _Lexer(text)
    parts: list[Part] = []
    while lexer.position < len(text):
        lexer.read_part(parts, quoted=quoted, stop="")
    return tuple(parts)


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def tokens(self) -> Iterator[Token]:
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == "\n":
                self.position += 1
                yield Token("newline")
            elif char.isspace():
                self.position += 1
            elif self.text.startswith("\\\n", self.position):
                self.position += 2
            elif char == "#":
                self._skip_comment()
            elif self.text.startswith("((", self.position):
                yield Token("math", text=self._balanced(self.position + 2, "(", ")", closing="))"))
            else:
                yield self._operator() or self._word_or_array()

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self.position)
        self.position = len(self.text) if end < 0 else end

    def _operator(self) -> Token | None:
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.position):
                self.position += len(operator)
                return Token("op", text=operator)
        return None

    def _word_or_array(self) -> Token:
        found = _ASSIGN.match(self.text, self.position)
        if found and self.text.startswith("(", found.end()):
            self.position = found.end() + 1
            return Token("array", text=found.group(1), items=self._array_items(), append=bool(found.group(2)))
        return Token("word", word=self._word())

    def _array_items(self) -> tuple[Word, ...]:
        items: list[Word] = []
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == ")":
                self.position += 1
                break
            if char.isspace() or char in ";&|<>(":
                self.position += 1
            elif self.text.startswith("\\\n", self.position):
                self.position += 2
            elif char == "#":
                self._skip_comment()
            else:
                items.append(self._word())
        return tuple(items)

    def _word(self) -> Word:
        parts: list[Part] = []
        while self.position < len(self.text):
            char = self.text[self.position]
            if char.isspace() or char in ";&|<>()":
                break
            if char == "'":
                parts.append(Part("text", self._until("'", self.position + 1), quoted=True))
            elif char == '"':
                self._double_quoted(parts)
            else:
                self.read_part(parts, quoted=False, stop=" \t\n;&|<>()'\"")
        return tuple(parts)

    def _double_quoted(self, parts: list[Part]) -> None:
        self.position += 1
        parts.append(Part("text", "", quoted=True))
        while self.position < len(self.text) and self.text[self.position] != '"':
            self.read_part(parts, quoted=True, stop='"')
        self.position += 1

    def read_part(self, parts: list[Part], *, quoted: bool, stop: str) -> None:
        """Read one escape, expansion or run of plain characters."""
        char = self.text[self.position]
        if char == "\\":
            escaped = self.text[self.position + 1 : self.position + 2]
            self.position += 2
            if escaped != "\n":
                keep = quoted and escaped not in '$`"\\'
                parts.append(Part("text", "\\" + escaped if keep else escaped, quoted=True))
        elif char == "$":
            parts.append(self._dollar(quoted))
        elif char == "`":
            parts.append(Part("command", self._until("`", self.position + 1), quoted))
        else:
            end = self.position
            while end < len(self.text) and self.text[end] not in "\\$`" and self.text[end] not in stop:
                end += 1
            end = max(end, self.position + 1)
            parts.append(Part("text", self.text[self.position : end], quoted))
            self.position = end

    def _dollar(self, quoted: bool) -> Part:
        after = self.position + 1
        if self.text.startswith("((", after):
            return Part("math", self._balanced(after + 2, "(", ")", closing="))"), quoted)
        if self.text.startswith("(", after):
            return Part("command", self._balanced(after + 1, "(", ")", closing=")"), quoted)
        if self.text.startswith("{", after):
            return Part("var", self._balanced(after + 1, "{", "}", closing="}"), quoted)
        name = _NAME.match(self.text, after)
        if name:
            self.position = name.end()
            return Part("var", name.group(), quoted)
        special = self.text[after : after + 1]
        if special and special in _SPECIAL:
            self.position = after + 1
            return Part("var", special, quoted)
        self.position = after
        return Part("text", "$", quoted)

    def _until(self, mark: str, start: int) -> str:
        end = self.text.find(mark, start)
        end = len(self.text) if end < 0 else end
        self.position = end + 1
        return self.text[start:end]

    def _balanced(self, start: int, opening: str, closer: str, *, closing: str) -> str:
        depth, index = 0, start
        while index < len(self.text):
            char = self.text[index]
            if depth == 0 and self.text.startswith(closing, index):
                break
            if char == "\\":
                index += 1
            elif char == opening:
                depth += 1
            elif char == closer and depth:
                depth -= 1
            index += 1
        self.position = index + len(closing)
        return self.text[start:index]
