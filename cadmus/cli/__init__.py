"""The ``cadmus`` command.

These modules parse arguments and print. They import heavy packages inside functions, so that
``cadmus --help`` starts at once.
"""
