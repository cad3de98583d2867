"""The ``cadmus`` command: modules that parse arguments and print.

A command is imported when it is invoked (table in ``main``), and a package such as torch when it is needed.
"""
