"""Exercises that check the reader's answer and name the mistake in it.

Each chapter is a module whose exercises are ``q1``, ``q2``, and so on::

    from tfmr.exercises import ch04

    def attention(q, k, v):
        return (q @ k.mT).softmax(dim=-1) @ v

    ch04.q2.check(attention)  # names the mistake in the function
    ch04.q2.hint()            # the next hint
    ch04.q2.solution()

:func:`tfmr.exercises.chapters.find_chapter` finds the module of a chapter by its number. To add a
chapter, add its module.
"""
