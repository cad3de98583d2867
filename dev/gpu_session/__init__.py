"""Half an hour on a rented GPU, prepared so that none of it is spent on thinking.

The machine has one GPU, a Python with PyTorch for CUDA (``machine.txt``), and no network; it takes commands
of ten minutes and some dozen megabytes, and gives eight files back after each. Processes in a session of
their own outlive a command. The rest happens at home:

===========  ===========================================================================================
``pack``     at home: put the packages that the machine lacks into ``.gpu/``, measure what has to travel,
             and print the command to run there
``run``      there: is the GPU right, how fast is it, then train ``config/h100.yaml`` for what is left; given
             again, it continues the same session
``collect``  at home: put the model together, sample the same dataset, evaluate and draw everything
``check``    on any GPU: the first two parts of ``run``; ``make gpu-check``
===========  ===========================================================================================

``make gpu-rehearsal`` does all of it on CPUs, in an environment with the versions of the rented machine and
nothing else (:mod:`tests.gpu_rehearsal`). Most of what can fail is not the GPU.
"""
