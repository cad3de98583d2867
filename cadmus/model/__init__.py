"""The decoder: ``gpt`` defines it, ``export`` writes and reads it, ``inference`` asks it."""
