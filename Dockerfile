# `make run` in a container; docs/index.md has the commands.
FROM python:3.11-slim

# Git names the commit in the results. The default index would give PyTorch for CUDA.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*
# The image also runs as any other user, who has no home.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1 \
    HOME=/tmp
WORKDIR /cadmus
COPY . .
RUN make .venv/installed
RUN chmod a+rwx . && git config --system --add safe.directory /cadmus
ENV PATH=/cadmus/.venv/bin:$PATH
CMD ["make", "run"]
