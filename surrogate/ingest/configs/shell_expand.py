"""Expansion of shell words in a known environment: `${X:-default}`, arrays, arithmetic, harmless substitutions.

What nobody sets becomes a marker (`scalars.unset`), and so does what only running could tell (`scalars.opaque`).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from surrogate.ingest.configs.arithmetic import evaluate
from surrogate.ingest.configs.scalars import OPEN, has_opaque, marked_name, opaque, unset, without_unset
from surrogate.ingest.configs.shell_lexer import HEREDOC, Heredoc, Part, Word, tokenize, word_parts

Content = str | list[str]
_MAX_TEXT: Final = 200_000
_MAX_FIELDS: Final = 20_000
_MAX_DEPTH: Final = 12
_BRACES: Final = re.compile(r"([#!]?)([A-Za-z_]\w*|[@*#?0-9])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_DEFAULT: Final = re.compile(r"(:?)([-=+?])(.*)", re.DOTALL)
_CAT_HEREDOC: Final = re.compile(rf"\s*cat\s*<<{HEREDOC}(\d{{1,6}})\s*")
_OWN_FOLDER: Final = re.compile(r"dirname\b.*(BASH_SOURCE|\$0|\$\{0\})", re.DOTALL)
_OWN_NAME: Final = re.compile(r"basename\b.*(BASH_SOURCE|\$0|\$\{0\})", re.DOTALL)


@dataclass(slots=True)
class Environment:
    """Variables of a script as far as they are known.

    Parameters
    ----------
    variables : dict of str to str or list of str
        Scalars and arrays.
    script : str
        The script's own path, for `$0` and `${BASH_SOURCE[0]}`.
    """

    variables: dict[str, Content] = field(default_factory=dict)
    script: str = "script.sh"
    defaults_used: dict[str, str] = field(default_factory=dict)
    heredocs: list[Heredoc] = field(default_factory=list)
    budget: int = 20_000_000
    """Characters that may still be produced; keeps a hostile script from growing without end."""
    depth: int = 0

    def heredoc_text(self, number: int) -> str:
        """Return the text of a here-document, its variables expanded unless its mark was quoted."""
        heredoc = self.heredocs[number]
        return self.text(word_parts(heredoc.body)) if heredoc.expand and self.depth < _MAX_DEPTH else heredoc.body

    def assign(self, name: str, value: Content, *, append: bool = False) -> None:
        """Set or extend a variable; too large a value becomes a marker."""
        old = self.variables.get(name)
        if append and old is not None:
            value = _joined(old, value)
        size = len(value) if isinstance(value, str) else sum(map(len, value)) + 8 * len(value)
        self.budget -= size
        self.variables[name] = opaque(f"{name}, too long to follow") if size > _MAX_TEXT else value

    def scalar(self, name: str) -> str | None:
        """Return a variable as text (an array as its first item), or None when it is not set."""
        value = self.variables.get(name)
        return (value[0] if value else "") if isinstance(value, list) else value

    def fields(self, word: Word) -> list[str]:
        """Return the words that one word becomes: unquoted expansions are split at white space."""
        out: list[str] = []
        current: str | None = None
        is_empty_list = False
        for part in word:
            items = self._items(part)
            is_empty_list |= not items
            if part.kind == "text" or part.quoted:
                current = _glue(out, current, items)
            else:
                current = _glue_split(out, current, " ".join(items))
            self.budget -= len(current or "") + 1
            if self.budget < 0 or len(out) > _MAX_FIELDS or len(current or "") > _MAX_TEXT:
                return [*out[:_MAX_FIELDS], opaque("an expansion too long to follow")]
        return out if current is None or (is_empty_list and not current) else [*out, current]

    def text(self, word: Word) -> str:
        """Return a word as one text, without splitting."""
        pieces = []
        for part in word:
            pieces.append(" ".join(self._items(part)))
            self.budget -= len(pieces[-1]) + 1
            if self.budget < 0:
                return opaque("an expansion too long to follow")
        return "".join(pieces)

    def number(self, expression: str) -> str:
        """Return the value of arithmetic as text, or a marker naming what is missing."""
        text = expression[:4000]
        if "$" in text:
            self.depth += 1
            text = self.text(word_parts(text)) if self.depth < _MAX_DEPTH else opaque("arithmetic nested too deeply")
            self.depth -= 1
        names = {name: self.scalar(name) or "" for name in re.findall(r"[A-Za-z_]\w*", text)[:100]}
        value = evaluate(text, names)
        if value is not None:
            return str(value)
        missing = marked_name(text) or next((name for name in names if self.scalar(name) is None), None)
        deep = next((marked_name(value) for value in names.values() if marked_name(value)), None)
        cause = missing or deep
        return unset(cause) if cause else opaque(f"$(({expression}))")

    def _items(self, part: Part) -> list[str]:
        if part.kind == "text":
            return [part.text]
        if part.kind == "math":
            return [self.number(part.text)]
        if part.kind == "command":
            return [self._substitution(part.text)]
        items = self._variable(part.text)
        return [" ".join(items)] if part.quoted and part.text.endswith(("[*]", "*")) else items

    def _variable(self, text: str) -> list[str]:
        found = _BRACES.fullmatch(text)
        if found is None:
            return [opaque("${" + text + "}")]
        prefix, name, index, rest = found.groups()
        value = self._content(name, index)
        if prefix == "#":
            return [str(len(value) if isinstance(value, list) else len(value or ""))]
        if prefix == "!":
            return self._variable(self.scalar(name) or "") if self.scalar(name) in self.variables else [opaque(text)]
        if rest:
            value = self._modified(name, value, rest)
        if value is None:
            return [] if name in ("@", "*") else [unset(name)]
        return list(value) if isinstance(value, list) else [value]

    def _content(self, name: str, index: str | None) -> Content | None:
        if name in ("0", "BASH_SOURCE"):
            return self.script
        if name in ("#", "?"):
            return "0"
        value = self.variables.get(name)
        if value is None or index in ("@", "*"):
            return value
        if isinstance(value, list):
            position = int(index) if index and index.isdecimal() and len(index) < 6 else 0
            return value[position] if position < len(value) else ""
        return value

    def _modified(self, name: str, value: Content | None, rest: str) -> Content | None:
        found = _DEFAULT.fullmatch(rest)
        scalar = " ".join(value) if isinstance(value, list) else value
        if found is None:
            return None if scalar is None else _trimmed(scalar, rest)
        colon, operator, words = found.groups()
        empty = scalar is None or (bool(colon) and not without_unset(scalar))
        if operator == "+":
            return "" if empty else self._nested(words)
        if operator == "?" or not empty:
            return value
        default = self._nested(words)
        self.defaults_used[name] = default
        if operator == "=":
            self.assign(name, default)
        return default

    def _nested(self, text: str) -> str:
        if self.depth >= _MAX_DEPTH:
            return opaque("an expansion nested too deeply")
        self.depth += 1
        first = next((token for token in tokenize(text) if token.kind == "word"), None)
        whole = first is not None and " " not in text.strip()
        value = self.text(first.word) if first is not None and whole else self.text(word_parts(text)).strip("\"'")
        self.depth -= 1
        return value

    def _substitution(self, command: str) -> str:
        if _OWN_FOLDER.search(command) or command.strip() == "pwd":
            return posixpath.dirname(self.script) or "."
        if _OWN_NAME.search(command):
            return posixpath.splitext(posixpath.basename(self.script))[0].removeprefix("config_")
        heredoc = _CAT_HEREDOC.fullmatch(command)
        if heredoc and int(heredoc.group(1)) < len(self.heredocs):
            return self.heredoc_text(int(heredoc.group(1)))
        words = command.split(maxsplit=1)
        if words and words[0] == "expr" and len(words) == 2:
            return self.number(words[1].replace("\\", ""))
        if words and words[0] == "echo" and len(words) == 2 and not set("|<>;&`") & set(words[1]):
            return self._nested(words[1])
        return opaque(f"$({command})")


def is_known(text: str) -> bool:
    """Tell whether `text` holds no marker at all."""
    return OPEN not in text


def matches(text: str, pattern: str) -> bool | None:
    """Match a shell pattern; None when `text` depends on running something."""
    if has_opaque(text) or has_opaque(pattern):
        return None
    return fnmatchcase(without_unset(text)[:2000], without_unset(pattern)[:200])


def _joined(old: Content, new: Content) -> Content:
    if isinstance(old, str) and isinstance(new, str):
        return old + new
    return (old if isinstance(old, list) else [old]) + (new if isinstance(new, list) else [new])


def _glue(out: list[str], current: str | None, items: list[str]) -> str | None:
    if not items:
        return current
    if len(items) == 1:
        return (current or "") + items[0]
    out.append((current or "") + items[0])
    out.extend(items[1:-1])
    return items[-1]


def _glue_split(out: list[str], current: str | None, text: str) -> str | None:
    pieces = text.split()
    if current is not None and text[:1].isspace():
        out.append(current)
        current = None
    if not pieces:
        return current
    current = (current or "") + pieces[0]
    for piece in pieces[1:]:
        out.append(current)
        current = piece
    if text[-1:].isspace():
        out.append(current)
        return None
    return current


def _trimmed(value: str, rest: str) -> str:
    replaced = re.fullmatch(r"(//?)([^/*?]+)/?([^/]*)", rest)
    if replaced:
        times = -1 if replaced.group(1) == "//" else 1
        return value.replace(replaced.group(2), replaced.group(3), times)
    for mark in ("%%", "%", "##", "#"):
        if rest.startswith(mark):
            return _without_affix(value, rest.removeprefix(mark), mark)
    folded = {"^^": value.upper(), ",,": value.lower()}
    return folded.get(rest, value)


def _without_affix(value: str, pattern: str, mark: str) -> str:
    if len(value) > 500 or len(pattern) > 100:
        return value
    cuts = range(len(value) + 1)
    if mark[0] == "%":
        order = cuts if mark == "%%" else reversed(cuts)
        return next((value[:cut] for cut in order if fnmatchcase(value[cut:], pattern)), value)
    order = reversed(cuts) if mark == "##" else cuts
    return next((value[cut:] for cut in order if fnmatchcase(value[:cut], pattern)), value)
