# The demo in a container, or any other command:
#
#     docker build -t nopg .
#     docker run --rm -v "$PWD/out:/out" nopg                    # nopg demo --out /out
#     docker run --rm -v "$PWD:/work" nopg learn log.csv --out run
#
# It runs as an unprivileged user; `gcc` is there so that `nopg export --format c` can
# compare what it writes. Any image with Python 3.11 or newer and apt will do as BASE.
# Where pip would fetch the GPU build of torch, gigabytes, name an index that has the CPU
# build: --build-arg PIP_ARGS="--extra-index-url ...".
ARG BASE=python:3.12-slim
FROM ${BASE}
ARG PIP_ARGS=""

RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home learner \
 && mkdir /out /work \
 && chown learner /out /work

COPY pyproject.toml constraints.txt README.md LICENSE /build/
COPY src /build/src
RUN pip install --no-cache-dir ${PIP_ARGS} -c /build/constraints.txt "/build[plots,data]" \
 && rm -rf /build

USER learner
WORKDIR /work
ENV OMP_NUM_THREADS=2
ENTRYPOINT ["nopg"]
CMD ["demo", "--out", "/out"]
