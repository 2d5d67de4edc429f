"""Lists in the sentences of messages and alternative texts."""

from collections.abc import Iterable


def joined(items: Iterable[object]) -> str:
    """The items as they stand in a sentence.

    >>> joined([1, 5]), joined(["a", "b", "c"])
    ('1 and 5', 'a, b and c')
    """
    texts = [str(item) for item in items]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
