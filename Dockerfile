# R with gmhclust, for CPUs and NVIDIA GPUs:
#
#   docker build --tag gmhclust .
#   docker run --rm --interactive --tty --gpus all gmhclust
#
# Without `--gpus all`, it computes on the CPU. The driver comes from the host: 550 or newer.

FROM ubuntu:24.04 AS build

ARG RUST=1.95.0

# Ubuntu keeps one version of each package, so no version can be named.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        build-essential ca-certificates r-base-dev r-cran-cli r-cran-parallelly rustup \
    && rm -rf /var/lib/apt/lists/* \
    && rustup toolchain install "$RUST" --profile minimal \
    && rustup default "$RUST"

COPY . /gmhclust
RUN mkdir /library && R CMD INSTALL --library=/library /gmhclust

# The same system, so that the package has the R that it was built with. The package needs no more
# of CUDA than the driver; this image names to the container runtime what it needs of that.
FROM nvidia/cuda:12.8.1-base-ubuntu24.04

# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        fonts-dejavu-core r-base-core r-cran-cli r-cran-parallelly \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1001 analyst

COPY --from=build /library/gmhclust /usr/local/lib/R/site-library/gmhclust

# gmhclust needs an older driver than the image does.
ENV NVIDIA_REQUIRE_CUDA="cuda>=12.4" \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    LC_ALL=C.UTF-8

RUN Rscript -e 'library(gmhclust); print(gmhclust(as.matrix(iris[1:4]), progress = FALSE))'

USER 1001
WORKDIR /home/analyst
CMD ["R"]
