"""Labs: one folder for all that a finding needs beyond the core; :mod:`cadmus.plugins` finds them."""

# It reads the settings of the labs, which a module of a lab must not begin.
import cadmus.config  # noqa: F401
