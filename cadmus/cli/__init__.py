"""The ``cadmus`` command.

These modules parse arguments and print. A command is imported when it is invoked (table in ``main``), and a
package that takes long to import, such as torch, when the command needs it: ``--help`` starts at once.
"""
