"""Ten minutes on a rented GPU, prepared so that none of them is spent on thinking.

The machine has one GPU, a Python with PyTorch for CUDA (:data:`machine.txt`), no network and little patience: one
command of ten minutes, a few dozen megabytes in, eight files out. Whatever takes longer happens at home:

==========  ================================================================================================
``pack``    at home: put the packages that the machine lacks into ``.gpu/``, check what has to travel, and
            print the command to run there
``run``     there: is the GPU right, how fast is it, then train ``config/h100.yaml`` for the time that is left
``collect`` at home: put the weights together, sample the same dataset, evaluate and draw everything
``check``   on any GPU: the first two parts of ``run``, which is ``make gpu-check``
==========  ================================================================================================

``make gpu-rehearsal`` does all of it on the CPUs of this machine, in an environment with the versions of the rented
one and nothing else (:mod:`dev.gpu_session.rehearsal`). Most of what can fail is not the GPU.
"""
