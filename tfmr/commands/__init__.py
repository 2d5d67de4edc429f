"""The subcommands of ``python -m tfmr``, one per module.

:mod:`~tfmr.commands.data` and :mod:`~tfmr.commands.decoding` are options that several share.
"""
