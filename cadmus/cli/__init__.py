"""The ``cadmus`` command.

The modules here only read arguments and print; they import what they call inside the functions, so that
``cadmus --help`` starts at once.
"""
