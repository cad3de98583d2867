"""``cadmus run`` and ``cadmus isa``."""

COMMANDS = ()
