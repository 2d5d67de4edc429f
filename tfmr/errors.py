"""The exception raised for invalid input."""


class TfmrError(ValueError):
    """Invalid input to ``tfmr``.

    The message is one line: what was expected, what was given, and the likely cause or the remedy.
    The command line prints it without a traceback and exits with status 2.
    """


def require(condition: bool, message: str) -> None:
    """Raise :class:`TfmrError` with ``message`` unless ``condition`` holds.

    The message is formatted before the call, so code that runs for every batch uses ``if`` and
    ``raise`` instead.
    """
    if not condition:
        raise TfmrError(message)
