# Spillway's .deb, built from this folder, on a slim Debian 12.
#   docker build -t spillway .
#   docker run --rm -it -v "$PWD:/work" spillway train config.yml
FROM debian:bookworm AS build
COPY . /source
WORKDIR /source
RUN rm -rf build \
 && tools/install_dependencies build arrow ranks package \
 && tools/make_packages deb

FROM debian:bookworm-slim
COPY --from=build /source/build/packages/spillway_*.deb /tmp/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /tmp/spillway_*.deb ca-certificates openmpi-bin python3-minimal \
 && rm -rf /tmp/spillway_*.deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["spillway"]
