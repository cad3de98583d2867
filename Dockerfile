# `make run` in a container; docs/index.md has the commands.
FROM python:3.11-slim

# Git names the commit in the results. The default index would give PyTorch for CUDA.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1
WORKDIR /cadmus
COPY . .
RUN make .venv/installed
ENV PATH=/cadmus/.venv/bin:$PATH
CMD ["make", "run"]
