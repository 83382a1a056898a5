# Usage: source tools/setup.sh
#
# Functions that the scripts in this folder share: messages, installation of requirements, and names
# of R tests. Changes to the root folder of the checkout.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# gmhclust is installed into a library in the checkout, not into the user's library.
library=$PWD/.R-library
export R_LIBS="$library${R_LIBS:+:$R_LIBS}"

# Rust's own installer puts cargo here, which is not on the PATH of every shell.
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

# Messages and sorting must not depend on the machine; R CMD check needs UTF-8.
export LC_ALL=C.UTF-8 LANGUAGE=en

# Requirements to build and load the package: R, a C compiler as linker, and certificates to
# download crates.
packages_to_build=(build-essential ca-certificates r-base-core r-cran-cli r-cran-parallelly)

# What the tests, vignettes and R's checks need besides.
packages_to_test=(fonts-dejavu-core git pandoc python3 python3-numpy qpdf r-bioc-all
    r-bioc-biobase r-bioc-biocneighbors r-bioc-biocparallel r-bioc-bluster
    r-bioc-complexheatmap r-bioc-delayedarray r-bioc-edger r-bioc-hdf5array r-bioc-s4vectors
    r-bioc-scater r-bioc-scran r-bioc-singlecellexperiment r-bioc-summarizedexperiment r-cran-ape
    r-cran-dbscan r-cran-dendextend r-cran-fastcluster r-cran-fnn r-cran-igraph r-cran-jsonlite
    r-cran-knitr r-cran-matrix r-cran-pheatmap r-cran-progressr r-cran-rmarkdown r-cran-testthat
    r-cran-tibble r-cran-uwot r-cran-vctrs)

say() {
    printf '[%4ds] %s\n' "$SECONDS" "$*"
}

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "cannot run \"$*\": neither root nor sudo is there" >&2
        return 1
    fi
}

# Installs missing Debian or Ubuntu packages.
need_system_packages() {
    if ! command -v apt-get >/dev/null; then
        say "no apt-get here: assuming that R and its packages are installed"
        return
    fi
    local name missing=()
    for name in "$@"; do
        if ! dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q ' installed$'; then
            missing+=("$name")
        fi
    done
    if ((${#missing[@]} == 0)); then
        say "all system packages are there"
        return
    fi
    say "installing system packages: ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Stops if there is no Rust toolchain. configure checks its version.
need_rust() {
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        echo "Rust is missing: install it from https://rustup.rs and start again" >&2
        return 1
    fi
    say "Rust is there: $(rustc --version)"
}

# The names NAME of all files tests/testthat/test-NAME.R.
r_test_names() {
    local file
    for file in tests/testthat/test-*.R; do
        file=${file##*/test-}
        echo "${file%.R}"
    done
}

# The same names, without those in tools/slow-tests.
quick_r_test_names() {
    r_test_names | grep -vxFf <(sed -n 's/^\([^# ]\+\) .*/\1/p' tools/slow-tests)
}

# Builds the package from the checkout and installs it into its library.
install_package() {
    mkdir -p "$library"
    R CMD INSTALL --library="$library" .
}
