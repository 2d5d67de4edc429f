"""The one exception of the package: an error that says what to do about it."""


class TfmrError(ValueError):
    """A mistake in what was given to ``tfmr``, and not in ``tfmr`` itself.

    The message is one line: what was expected, what came, and the likely cause or the remedy.
    The command line prints it without a traceback and exits with status 2.
    """


def require(condition: bool, message: str) -> None:
    """Raise :class:`TfmrError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise TfmrError(message)
