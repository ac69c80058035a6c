// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `graph`: dependencies of crates point down, external crates are on a list, and all
//! crates have one lint table.
//!
//! `abi <- sync <- vfs <- {mem, ring <- wasi, uring <- {host, fuse}, overlay <- commit}`. `run`,
//! `testkit`, `testkit-sqlite` and `bench` use some of these, and `cli` also uses `run` and
//! `testkit`. `conformance` and `xtask` use none. Tests may use more crates ([`FOR_TESTS`]) than
//! shipped code.

use super::{Report, Source, Tree};

const RULE: &str = "graph";

/// One crate and its permitted dependencies.
struct Node {
    name: &'static str,
    /// Crates of this tree.
    own: &'static [&'static str],
    /// External crates.
    outside: &'static [&'static str],
}

const ABI: &str = "openpath-abi";
const SYNC: &str = "openpath-sync";
const VFS: &str = "openpath-vfs";
const MEM: &str = "openpath-mem";
const RING: &str = "openpath-ring";
const URING: &str = "openpath-uring";
const HOST: &str = "openpath-host";
const FUSE: &str = "openpath-fuse";
const WASI: &str = "openpath-wasi";
const OVERLAY: &str = "openpath-overlay";
const COMMIT: &str = "openpath-commit";
const RUN: &str = "openpath-run";
const TESTKIT: &str = "openpath-testkit";
const SQLITE: &str = "openpath-testkit-sqlite";
const BENCH: &str = "openpath-bench";

const TESTKIT_TOOLS: &[&str] = &["libc", "clap", "io-uring", "rustix", "serde", "serde_json"];
const BENCH_TOOLS: &[&str] = &[
    "libc",
    "clap",
    "io-uring",
    "rustix",
    "serde",
    "serde_json",
    "tokio",
    "wasmtime",
    "wasmtime-wasi",
];
const CLI: &[&str] = &[
    "anstream",
    "anstyle",
    "clap",
    "clap_complete",
    "clap_mangen",
    "indicatif",
    "rustix",
    "serde",
    "serde_json",
    "signal-hook",
    "gix-imara-diff",
    "toml",
    "tracing",
    "wasmtime",
];

const GRAPH: &[Node] = &[
    Node {
        name: ABI,
        own: &[],
        outside: &[],
    },
    Node {
        name: SYNC,
        own: &[ABI],
        outside: &["libc", "parking_lot", "loom", "shuttle"],
    },
    Node {
        name: VFS,
        own: &[ABI, SYNC],
        outside: &[],
    },
    Node {
        name: MEM,
        own: &[ABI, SYNC, VFS],
        outside: &[],
    },
    Node {
        name: RING,
        own: &[ABI, SYNC, VFS],
        outside: &["tracing", "shuttle"],
    },
    Node {
        name: URING,
        own: &[ABI, SYNC, VFS],
        outside: &["io-uring", "rustix"],
    },
    Node {
        name: HOST,
        own: &[ABI, SYNC, VFS, URING],
        outside: &["rustix"],
    },
    Node {
        name: FUSE,
        own: &[ABI, SYNC, VFS, URING],
        outside: &["rustix", "tracing"],
    },
    Node {
        name: COMMIT,
        own: &[ABI, VFS, OVERLAY],
        outside: &["rustix", "serde", "serde_json", "sha2", "toml"],
    },
    Node {
        name: RUN,
        own: &[ABI, SYNC, VFS, MEM, HOST, OVERLAY, COMMIT, FUSE],
        outside: &[
            "nix",
            "rustix",
            "serde",
            "serde_json",
            "signal-hook",
            "toml",
        ],
    },
    Node {
        name: WASI,
        own: &[ABI, VFS, RING],
        outside: &[
            "rustix",
            "sha2",
            "tracing",
            "wasmtime",
            "wasmtime-wasi",
            "wasmtime-wasi-io",
        ],
    },
    Node {
        name: OVERLAY,
        own: &[ABI, SYNC, VFS],
        outside: &[],
    },
    Node {
        name: TESTKIT,
        own: &[ABI, SYNC, VFS, MEM, HOST, OVERLAY, RING, FUSE],
        outside: TESTKIT_TOOLS,
    },
    Node {
        name: SQLITE,
        own: &[ABI, SYNC, VFS],
        outside: &["rusqlite"],
    },
    Node {
        name: BENCH,
        own: &[ABI, SYNC, VFS, MEM, HOST, RING, OVERLAY, FUSE, WASI],
        outside: BENCH_TOOLS,
    },
    Node {
        name: "openpath-conformance",
        own: &[],
        outside: &["rustix"],
    },
    Node {
        name: "openpath-cli",
        own: &[
            ABI, SYNC, VFS, MEM, HOST, OVERLAY, RING, FUSE, RUN, WASI, TESTKIT,
        ],
        outside: CLI,
    },
    Node {
        name: "xtask",
        own: &[],
        outside: &["anstyle-svg", "clap", "serde_json"],
    },
];

/// Crates that tests may use.
const FOR_TESTS: &[&str] = &[
    ABI,
    SYNC,
    VFS,
    MEM,
    HOST,
    FUSE,
    OVERLAY,
    COMMIT,
    TESTKIT,
    "libc",
    "parking_lot",
    "serde",
    "serde_json",
    "loom",
    "shuttle",
    "proptest",
    RING,
    "tokio",
    "wasmtime",
    "wasmtime-wasi",
    "wasmtime-wasi-io",
    "wat",
    "rustix",
    "crossbeam-epoch",
    "seize",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.manifests() {
        let manifest = Manifest::read(file);
        let Some(node) = GRAPH.iter().find(|node| node.name == manifest.name) else {
            let text = format!("crate `{}` has no place in the graph", manifest.name);
            report.fail(RULE, &file.path, 0, text);
            continue;
        };
        if !manifest.shares_lints {
            report.fail(RULE, &file.path, 0, "needs `[lints] workspace = true`");
        }
        for dependency in manifest.dependencies {
            let name = dependency.name.as_str();
            let allowed = if dependency.for_tests {
                FOR_TESTS.contains(&name) && name != node.name
            } else {
                node.own.contains(&name) || node.outside.contains(&name)
            };
            if !allowed {
                let text = format!("`{}` may not depend on `{name}`", node.name);
                report.fail(RULE, &file.path, dependency.line, text);
            }
        }
    }
}

/// The parts of a manifest that the rule needs.
#[derive(Default)]
struct Manifest {
    name: String,
    shares_lints: bool,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    line: usize,
    for_tests: bool,
}

impl Manifest {
    /// Parses a manifest by its lines: tables, keys, and `package` in a renamed dependency.
    fn read(file: &Source) -> Manifest {
        let mut manifest = Manifest::default();
        let mut table = String::new();
        for (at, line) in file.text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('[') {
                table = line.trim_matches(['[', ']']).to_owned();
                if let Some((kind, name)) = named_table(&table) {
                    manifest.add(name, at + 1, kind);
                }
            } else if let Some((key, value)) = line.split_once('=') {
                manifest.entry(&table, key.trim(), value.trim(), at + 1);
            }
        }
        manifest
    }

    fn entry(&mut self, table: &str, key: &str, value: &str, line: usize) {
        let kind = table.rsplit('.').next().unwrap_or(table);
        if table == "package" && key == "name" {
            self.name = unquote(value).to_owned();
        } else if (table == "lints" && key == "workspace") || key == "lints.workspace" {
            self.shares_lints |= value == "true";
        } else if is_dependency_table(kind) {
            let renamed = value
                .split_once("package")
                .and_then(|(_, rest)| rest.split('"').nth(1));
            let name = renamed.unwrap_or_else(|| key.split('.').next().unwrap_or(key));
            self.add(unquote(name), line, kind);
        }
    }

    fn add(&mut self, name: &str, line: usize, kind: &str) {
        let for_tests = kind == "dev-dependencies";
        self.dependencies.push(Dependency {
            name: name.to_owned(),
            line,
            for_tests,
        });
    }
}

fn is_dependency_table(kind: &str) -> bool {
    matches!(
        kind,
        "dependencies" | "dev-dependencies" | "build-dependencies"
    )
}

/// Kind and name of a table for one dependency: `[dependencies.name]`.
fn named_table(table: &str) -> Option<(&str, &str)> {
    let (before, name) = table.rsplit_once('.')?;
    let kind = before.rsplit('.').next().unwrap_or(before);
    is_dependency_table(kind).then(|| (kind, unquote(name)))
}

fn unquote(text: &str) -> &str {
    text.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::check;

    fn found(name: &str, rest: &str) -> Vec<(usize, String)> {
        let text = format!(
            "[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n[dependencies]\n{rest}"
        );
        planted(check, &[("crates/x/Cargo.toml", &text)])
    }

    #[test]
    fn upward_dependency_is_reported() {
        let down = "openpath-abi.workspace = true\nopenpath-sync = { workspace = true }\n";
        assert_eq!(found("openpath-vfs", down), []);
        for up in [
            "openpath-mem.workspace = true\n",
            "openpath-mem = { path = \"../backends/mem\" }\n",
            "\"openpath-mem\" = \"1\"\n",
            "other = { package = \"openpath-mem\", version = \"1\" }\n",
        ] {
            assert_eq!(found("openpath-vfs", up)[0].0, 6, "{up}");
        }
        for table in [
            "[dependencies.openpath-mem]\n",
            "[build-dependencies]\nopenpath-mem = \"1\"\n",
            "[target.'cfg(unix)'.dependencies]\nopenpath-mem = \"1\"\n",
            "[target.'cfg(unix)'.dependencies.openpath-mem]\n",
        ] {
            assert_eq!(found("openpath-vfs", table).len(), 1, "{table}");
        }
        assert_eq!(
            found("openpath-bench", "openpath-testkit = \"1\"\n").len(),
            1
        );
    }

    #[test]
    fn tests_may_depend_upward() {
        assert_eq!(
            found("openpath-vfs", "[dev-dependencies]\nopenpath-mem = \"1\"\n"),
            []
        );
        assert_eq!(
            found("openpath-vfs", "[dev-dependencies]\nopenpath-cli = \"1\"\n").len(),
            1
        );
        assert_eq!(found("openpath-vfs", "[dev-dependencies.xtask]\n").len(), 1);
    }

    #[test]
    fn unlisted_external_crate_is_reported() {
        assert_eq!(found("openpath-sync", "libc.workspace = true\n"), []);
        assert_eq!(found("openpath-vfs", "libc.workspace = true\n").len(), 1);
        assert_eq!(found("openpath-cli", "tokio = \"1\"\n").len(), 1);
    }

    #[test]
    fn unknown_crate_and_own_lint_table_are_reported() {
        assert_eq!(found("openpath-new", "").len(), 1);
        let text = "[package]\nname = \"openpath-abi\"\n[lints.rust]\nmissing_docs = \"allow\"\n";
        assert_eq!(planted(check, &[("crates/abi/Cargo.toml", text)]).len(), 1);
    }
}
