"""The two machines: ``reference`` reads like the definition, ``compiled`` runs batches of programs.

They agree on every program; tests/test_machines_agree.py holds them to it.
"""
