# Two images, both installed from the locks in requirements/ with hashes:
#
#   docker build --target service -t dragoman/service:0.1.0 .
#   docker build --target node    -t dragoman/node:0.1.0 .
#
# BASE may include a digest (python:3.11-slim-bookworm@sha256:...) or name a mirror.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS tools
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY requirements requirements
RUN python -m venv --without-pip /tools \
    && pip --python /tools/bin/python install --require-hashes --only-binary :all: -r requirements/build.txt

FROM tools AS wheel
COPY . .
RUN /tools/bin/python -m hatchling build -t wheel -d /wheels

# Includes gRPC: run.txt locks the extra dragoman[grpc] too. No pip: nothing is installed later.
FROM tools AS service-files
RUN python -m venv --without-pip /opt/dragoman \
    && pip --python /opt/dragoman/bin/python install --require-hashes --only-binary :all: -r requirements/run.txt
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/dragoman/bin/python install --no-deps --no-index /wheels/*.whl

# The lock of the agent lacks the packages of the `dragoman` command, so the command is removed.
FROM tools AS node-files
RUN python -m venv --without-pip /opt/dragoman \
    && pip --python /opt/dragoman/bin/python install --require-hashes --only-binary :all: -r requirements/node.txt
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/dragoman/bin/python install --no-deps --no-index /wheels/*.whl \
    && rm /opt/dragoman/bin/dragoman

FROM ${BASE} AS service
COPY --from=service-files /opt/dragoman /opt/dragoman
ENV PATH=/opt/dragoman/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
EXPOSE 9595 9443
ENTRYPOINT ["dragoman"]
CMD ["--help"]

# Runs as root, which owns the socket of the container runtime. The chart drops all capabilities.
FROM ${BASE} AS node
COPY --from=node-files /opt/dragoman /opt/dragoman
ENV PATH=/opt/dragoman/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
EXPOSE 9394
ENTRYPOINT ["python", "-P", "-m", "dragoman.module", "adapters.agent"]
CMD ["/etc/dragoman/node.yaml"]
