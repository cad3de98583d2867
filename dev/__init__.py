"""Tools that only maintainers run. They are in the source distribution, not in the wheel.

=========================  ==================================================================================
``python -m dev.bench``    speed of one part on this machine; docs/benchmarks/bench_NAME.json
``python -m dev.fuzz``     the two VMs against each other on random programs
``python -m dev.attack``   policies that fool the grade of a question
``python -m dev.docs``     the generated parts of the documents
``make gpu-check``         what needs a GPU, and half an hour on a rented one (:mod:`dev.gpu_session`)
``make slurm-test``        the workflow on a SLURM cluster of this machine (:mod:`dev.slurm_cluster`)
``make notebook``          the outputs of docs/notebook.ipynb
``python -m dev.walk``     seconds of the README's commands in an empty clone
=========================  ==================================================================================
"""
