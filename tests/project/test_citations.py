"""Every entry of the bibliography has one permanent address and an unambiguous label."""

import re
from collections import Counter

import pytest
from pybtex.database import Entry, Person

from tools.citations import BIBLIOGRAPHY, PREFIXES, address, addresses, entries, label, names

ENTRIES = entries()


@pytest.mark.parametrize("key", ENTRIES)
def test_an_entry_has_a_title_authors_and_a_year(key: str) -> None:
    entry = ENTRIES[key]
    assert entry.fields["title"]
    assert entry.persons["author"]
    # "and others" hides authors from the bibliography, and would be counted as a person.
    assert all(person.last_names != ["others"] for person in entry.persons["author"])
    assert re.fullmatch(r"(19|20)\d\d", entry.fields["year"])


@pytest.mark.parametrize("key", ENTRIES)
def test_an_entry_has_exactly_one_address(key: str) -> None:
    fields = ENTRIES[key].fields
    [field] = PREFIXES.keys() & set(fields)
    patterns = {"url": r"https://\S+", "doi": r"10\.\d{4,}/\S+", "eprint": r"\d{4}\.\d{4,5}"}
    assert re.fullmatch(patterns[field], fields[field])
    # The bibliography links an eprint to arXiv only if the entry names arXiv as the archive.
    assert fields.get("archivePrefix") == ("arXiv" if field == "eprint" else None)
    # A doi.org or arxiv.org address belongs in the field that is made for it.
    assert not re.search(r"//((dx\.)?doi|arxiv)\.org", fields.get("url", ""))


def test_the_addresses_are_https_and_unique() -> None:
    found = addresses()
    assert found.keys() == ENTRIES.keys()
    assert all(value.startswith("https://") for value in found.values())
    assert [value for value, count in Counter(found.values()).items() if count > 1] == []


def test_the_labels_are_unique_and_contain_no_latex() -> None:
    found = Counter(map(label, ENTRIES))
    wrong = [text for text, n in found.items() if n > 1 or re.search(r"[\\{}$~]", text)]
    assert wrong == []


def test_a_url_is_preferred_to_a_doi_and_a_doi_to_an_eprint() -> None:
    fields = {"eprint": "1706.03762", "doi": "10.1000/182", "url": "https://example.org/paper"}
    assert address(Entry("misc", fields)) == "https://example.org/paper"
    del fields["url"]
    assert address(Entry("misc", fields)) == "https://doi.org/10.1000/182"
    del fields["doi"]
    assert address(Entry("misc", fields)) == "https://arxiv.org/abs/1706.03762"
    entry = Entry("misc", {"title": "A Paper"})
    entry.key = "nobody1999paper"
    with pytest.raises(ValueError, match=r"nobody1999paper.*url, doi, eprint"):
        address(entry)


@pytest.mark.parametrize(
    ("key", "authors", "year"),
    [
        ("popovic2015chrf", "Popović", 2015),
        ("nostalgebraist2020logit", "nostalgebraist", 2020),
        ("press2017using", "Press and Wolf", 2017),
        ("muller2019when", "Müller et al.", 2019),
    ],
)
def test_the_label_of_chosen_entries(key: str, authors: str, year: int) -> None:
    assert label(key) == f"{authors} ({year})"
    assert label(key, parenthetical=True) == f"{authors}, {year}"


def test_the_label_of_an_unknown_key_is_an_error() -> None:
    with pytest.raises(KeyError, match="nobody1999paper"):
        label("nobody1999paper")


@pytest.mark.parametrize(
    ("authors", "expected"),
    [
        ([r"Kaiser, {\L}ukasz"], "Kaiser"),
        ([r"{\L}ukasiewicz, Jan"], "Łukasiewicz"),
        ([r"van den Oord, A{\"a}ron"], "van den Oord"),
        ([r"van Merri{\"e}nboer, Bart", "Cho, Kyunghyun"], "van Merriënboer and Cho"),
        (["Natesan Ramamurthy, Karthikeyan"], "Natesan Ramamurthy"),
        (["{Google Brain}", "{OpenAI}"], "Google Brain and OpenAI"),
        (["{Barnes and Noble}"], "Barnes and Noble"),
        (["King, Jr, Martin Luther"], "King"),
        (["Ba, Jimmy Lei", "Kiros, Jamie Ryan", "Hinton, Geoffrey E."], "Ba et al."),
    ],
)
def test_names(authors: list[str], expected: str) -> None:
    assert names([Person(author) for author in authors]) == expected


def test_every_entry_is_cited() -> None:
    book = BIBLIOGRAPHY.parent
    pages = [*book.glob("*.ipynb"), *book.glob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    assert [key for key, url in addresses().items() if url not in text] == []
