# Short names for the common commands; each works without just as well.

# Lists the recipes.
default:
    @just --list --unsorted

# Shows the embedded fleet at work.
demo:
    dev/demo

# Runs all tests on real parts, or those that ARGUMENTS select: `just test --quick`.
test *ARGUMENTS:
    cargo xtask test {{ARGUMENTS}}

# Formats, and checks lints.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --locked -- --deny warnings

# Checks the laws of dependency and the rules for files.
tidy:
    cargo xtask tidy

# Runs one benchmark, for example `just bench bus --keep`.
bench NAME *ARGUMENTS:
    cargo xtask bench {{NAME}} {{ARGUMENTS}}

# Runs what takes long: flaky, chaos or soak, for example `just accept chaos --fault worker-kill`.
accept NAME *ARGUMENTS:
    cargo xtask accept {{NAME}} {{ARGUMENTS}}

# Starts a real one-node Kubernetes for the tests, and prints where its kubeconfig is.
kube-up *IMAGES:
    dev/kube/up {{IMAGES}}

# Ends it.
kube-down:
    dev/kube/down

# Runs what CI runs.
ci:
    cargo xtask ci

# Builds the images of the services, or the ones that are named.
images *TARGETS:
    docker/images {{TARGETS}}

# Makes a release archive of this machine's kind, and its checksum, in FOLDER.
release FOLDER:
    docker/release {{FOLDER}}

# Starts the whole fleet with Docker, and with `observe` the dashboards beside it.
up *PROFILE:
    deploy/compose/up {{PROFILE}}

# Stops it; with --volumes, what it keeps goes too.
down *ARGUMENTS:
    deploy/compose/down {{ARGUMENTS}}
