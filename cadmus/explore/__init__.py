"""A page to play with: a program, what the machine does with it, and what a model makes of it."""
