"""Find a catalogue entry by name or alias, whatever the case and the separators, and list near matches if none fits.

Only whole names match. A table that looks for "H20" inside "H200" gives an H200 the peak of an H20; here the vendor's
decoration ("NVIDIA ", "-Instruct", "meta-llama/") is stripped and what is left must be a name in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from surrogate.errors import UnknownNameError

_SEPARATORS = re.compile(r"[\s_\-]+")
MAX_NEAR_MATCHES = 5


def name_key(name: str) -> str:
    """Return the form in which names are compared: lower case, without spaces, hyphens and underscores.

    Examples
    --------
    >>> name_key("TPU v5p"), name_key("H100-80GB"), name_key("Llama_3.1-8B")
    ('tpuv5p', 'h10080gb', 'llama3.18b')
    """
    return _SEPARATORS.sub("", name).lower()


@dataclass(frozen=True, slots=True)
class NameIndex:
    """Names and aliases of one kind of catalogue entry.

    Parameters
    ----------
    field : str
        What the name is called in plans and tables; used in error messages.
    canonical_by_key : Mapping[str, str]
        Canonical name by `name_key` of each name and alias.
    noise : frozenset of str
        Words that say nothing about which entry is meant and are ignored when the whole name is unknown.
    """

    field: str
    canonical_by_key: Mapping[str, str]
    noise: frozenset[str]

    def resolve(self, name: str) -> str:
        """Return the canonical name.

        Raises
        ------
        UnknownNameError
            If neither the name nor an alias matches; the message lists near matches.
        """
        for candidate in (name, name.rsplit("/", 1)[-1]):
            for key in (name_key(candidate), self._key_without_noise(candidate)):
                if key in self.canonical_by_key:
                    return self.canonical_by_key[key]
        raise UnknownNameError(self.field, name, self.near(name), f"see `surrogate catalog list {self.field}s`")

    def near(self, name: str) -> list[str]:
        """Return up to five canonical names that look like `name`, the likeliest first."""
        key = self._key_without_noise(name.rsplit("/", 1)[-1]) or name_key(name)
        keys = get_close_matches(key, self.canonical_by_key, n=2 * MAX_NEAR_MATCHES, cutoff=0.5)
        keys += sorted(known for known in self.canonical_by_key if len(key) > 1 and (key in known or known in key))
        return list(dict.fromkeys(self.canonical_by_key[key] for key in keys))[:MAX_NEAR_MATCHES]

    def _key_without_noise(self, name: str) -> str:
        words = _SEPARATORS.split(name.strip().lower())
        return "".join(word for word in words if word not in self.noise)


def build_index(field: str, aliases_by_name: Mapping[str, Iterable[str]], *, noise: Iterable[str] = ()) -> NameIndex:
    """Index the names of a catalogue; a name always wins over another entry's alias.

    Parameters
    ----------
    field : str
        What the name is called in plans and tables.
    aliases_by_name : Mapping[str, Iterable[str]]
        Aliases by canonical name; of two entries with the same alias the later one (a user's own) wins.
    noise : Iterable[str], optional
        Words to ignore.
    """
    canonical = {name_key(alias): name for name, aliases in aliases_by_name.items() for alias in aliases}
    canonical |= {name_key(name): name for name in aliases_by_name}
    return NameIndex(field, canonical, frozenset(noise))
