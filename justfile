# Short names for the scripts; the scripts are the truth and work without just.

# List the recipes
default:
    @just --list

# Format, lints, unit and doc tests, without services
check:
    tests/check

# Every test, on a real Postgres and a real Kafka; arguments go to cargo test
test *args:
    tests/run {{ args }}

# The tests that draw faults at random, for minutes each (5 if nothing is said)
soak minutes="5":
    tests/soak {{ minutes }}

# Break each promise in a copy and expect its test to fail; arguments are names of patches
prove *args:
    tests/prove {{ args }}

# How fast, against loops written by hand; --json prints one line per case
bench *args:
    benches/run {{ args }}

# The demo: kills its own worker and counts what became of each message
quickstart *args:
    cargo run --release -p quickstart -- {{ args }}

# All that CI does
ci:
    .ci/run

# Start Postgres and Kafka and print their addresses: eval "$(just services-start)"
@services-start:
    tests/services start

# Stop them and delete their data
@services-stop:
    tests/services stop

# The documentation, as CI builds it
doc *args:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features {{ args }}
