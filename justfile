# The frequent commands; CONTRIBUTING.md has all of them.

# Everything that must pass before a commit.
check:
    cargo xtask check

# Unit and documentation tests alone.
test *args:
    cargo test --workspace {{ args }}

# openpath against the host kernel: time.
bench *args:
    cargo run --release -p openpath-bench -- walk {{ args }}

# Every interleaving of the protocols in sync.
loom *args:
    cargo xtask loom {{ args }}

# openpath against the host kernel: answers. Needs root.
oracle *args:
    cargo xtask oracle {{ args }}
