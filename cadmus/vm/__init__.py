"""Two implementations of the VM: ``reference`` defines the semantics, ``compiled`` runs batches fast.

They give the same results on every program (tests/vm/test_agreement.py, ``python -m dev.fuzz``).
"""
