"""What the verbs share for their output: JSON on standard output, progress on standard error, units and bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from surrogate.units import GIB, MILLI

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from surrogate.api.predictor import Site

BAR_WIDTH: Final = 30
MAX_WIDTH: Final = 100
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def print_json(value: object) -> None:
    """Print a value as JSON; dictionaries keep their order, NaN is null."""
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY).decode())


def console(*, to_stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, at most 100 columns, without guessed colours."""
    from rich.console import Console

    made = Console(stderr=to_stderr, highlight=False, emoji=False)
    made.width = min(made.width, MAX_WIDTH) if made.is_terminal else MAX_WIDTH
    return made


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", texts: int = 1) -> Table:
    """Return a table without lines around it; all but the first `texts` columns are numbers, set to the right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position < texts else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that says what is being done now, on standard error: a spinner, or plain lines in a log."""
    if quiet or not sys.stderr.isatty():
        yield (lambda _text: None) if quiet else (lambda text: typer.echo(f"{text} ...", err=True))
        return
    from rich.status import Status

    with Status("", console=console(to_stderr=True)) as status:
        yield lambda text: status.update(f"{text} ...")


def bar(fraction: float, width: int = BAR_WIDTH) -> str:
    """Return a bar of eighths of a character.

    Examples
    --------
    >>> bar(0.5, 4), bar(0.03, 4), bar(1.0, 4)
    ('██', '▏', '████')
    """
    eighths = round(max(0.0, min(fraction, 1.0)) * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def seconds(value: float) -> str:
    """Return a duration with three significant digits and its unit.

    Examples
    --------
    >>> seconds(7.1209), seconds(0.00123), seconds(123.4), seconds(0.0)
    ('7.12 s', '1.23 ms', '123 s', '0 s')
    """
    if value == 0.0:
        return "0 s"
    small = abs(value) < MILLI * 100.0
    return f"{significant(value / MILLI)} ms" if small else f"{significant(value)} s"


def significant(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, thousands apart, never with an exponent.

    Examples
    --------
    >>> significant(1150.4), significant(0.05599), significant(12.0)
    ('1,150', '0.0560', '12.0')
    """
    from math import floor, log10

    if value == 0.0 or value != value or abs(value) == float("inf"):
        return f"{value:g}"
    decimals = max(0, digits - 1 - floor(log10(abs(value))))
    return f"{value:,.{decimals}f}"


def gibibytes(value: float) -> str:
    """Return bytes in GiB.

    Examples
    --------
    >>> gibibytes(75099282760.8)
    '69.9 GiB'
    """
    return f"{significant(value / GIB)} GiB"


def percent(fraction: float, *, signed: bool = False) -> str:
    """Return a fraction in percent.

    Examples
    --------
    >>> percent(0.3636), percent(0.052, signed=True), percent(0.0004)
    ('36.4 %', '+5.2 %', '0.0 %')
    """
    return f"{100.0 * fraction:+.1f} %" if signed else f"{100.0 * fraction:.1f} %"


def cause_name(part: str) -> str:
    """Return a part of the step time in words.

    Examples
    --------
    >>> cause_name("tp_s"), cause_name("unheard_of_s")
    ('tensor parallel traffic', 'unheard of')
    """
    from surrogate.analytic.part_names import PART_NAMES

    return PART_NAMES.get(part, part.removesuffix("_s").replace("_", " "))


def unknown_site(site: Site | None) -> str:
    """Return what to say when plans are predicted for a site that nobody knows; nothing otherwise."""
    if site is None or site.is_known:
        return ""
    return f"site {site.name} is not known: the habits of the whole population apply"
