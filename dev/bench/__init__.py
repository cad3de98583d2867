"""Speed on this machine: ``python -m dev.bench NAME``.

A benchmark is a function that returns a flat object of settings and results. Cells of a table have the key
``ROW_COLUMN``. Its parameters ``config``, ``model`` and ``programs`` are options of the command.
"""
