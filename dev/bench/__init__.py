"""Speed on this machine: a benchmark is a function that returns an object of :func:`dev.measure.flat`."""
