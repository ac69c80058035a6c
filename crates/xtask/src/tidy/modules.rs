// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `modules`: inside a crate, imports point from later modules to earlier ones.
//!
//! # Order
//! [`ORDERS`] lists the top modules of a crate, the lowest first. A module may use the modules
//! before it, so no cycle is possible. The crate's root may use all of them. Test code may use
//! anything.
//!
//! # Pending
//! An upward import that is not resolved yet is listed with its crate. A listed import that no
//! longer exists is an error, so the list only shrinks.

use super::lexer::is_word;
use super::{Report, Source, Tree};
use std::collections::BTreeSet;

const RULE: &str = "modules";

/// The modules of a crate.
struct Order {
    /// The folder of its root.
    src: &'static str,
    /// Its top modules, the lowest first.
    modules: &'static [&'static str],
    /// Upward imports that are left: the module, and the one above it that it uses.
    pending: &'static [(&'static str, &'static str)],
}

const ORDERS: &[Order] = &[
    Order {
        src: "crates/abi/src",
        modules: &[
            "access", "caps", "dirent", "errno", "falloc", "flags", "inotify", "limits", "poll",
            "time", "fcntl", "lock", "mode", "mount", "rename", "resolve", "xattr", "how", "stat",
            "statx",
        ],
        pending: &[],
    },
    Order {
        src: "crates/sync/src",
        modules: &[
            // What all others are made of.
            "zero_valid",
            "fault",
            "primitive",
            "cache_padded",
            // Calls of the system.
            "background",
            "clock",
            "heap",
            "keyring",
            "landlock",
            "process",
            "random",
            "seccomp",
            // Words and memory.
            "word",
            "life",
            "once",
            "shards",
            "region",
            "slots",
            "pages",
            "bounded_counter",
            "message_list",
            // Protocols.
            "asymmetric_fence",
            "lockdep",
            "lockdep_disabled",
            "lock",
            "wait",
            "biased",
            "hash",
            "rcu",
            "store",
            "debug",
        ],
        pending: &[],
    },
    Order {
        src: "crates/vfs/src",
        modules: &[
            // Words, settings and small tools.
            "lock_order",
            "named",
            "setters",
            "weak_list",
            "buffer",
            "bytes",
            "clock",
            "config",
            "cred",
            "name",
            "pressure",
            // The parts of objects: lists, locks, leases, pipes and marks of one file.
            "acl",
            "reason",
            "absent",
            "file_ops",
            "tenant_lru",
            "tenant",
            "pipe",
            "lock_call",
            "lease",
            "lock",
            "mark",
            "path",
            // The objects.
            "inode",
            "invalidation_listener",
            "superblock",
            "layout",
            "object",
            "perm",
            "steps",
            // Their lookup and storage.
            "atime",
            "dcache",
            "path_cache",
            "mount",
            "device",
            "notify",
            "fd_table",
            "instance",
            // Their changes in a `Vfs`, for any caller.
            "events",
            "file_locks",
            "namespace",
            "forget",
            "release",
            // A task, and its calls.
            "task",
            "tried",
            "file",
            "fd",
            "target",
            "walk",
            "open",
            "io",
            "ops",
            // The surroundings of the calls.
            "vfs",
            "shrinker",
            "interrupt",
            "proxy_task",
            "explain",
            "debug",
        ],
        pending: &[],
    },
    Order {
        src: "crates/uring/src",
        modules: &["errno", "operation", "sys", "ring_thread", "fuse"],
        pending: &[],
    },
    Order {
        src: "crates/faces/fuse/src",
        modules: &[
            "tuning",
            "options",
            "stats",
            "clock",
            "rings",
            "early_interrupts",
            "in_flight",
            "worker",
            "wire",
            "adaptive_spin",
            "poll_group",
            "keep_awake",
            "affinity",
            "left_names",
            "nodes",
            "cached_names",
            "events",
            "locks",
            "fs",
            "invalidation",
            "single_user",
            "replaced",
            "data",
            "listing",
            "observer",
            "dispatch",
            "message",
            "device_threads",
            "ring_threads",
            "attach",
            "server",
        ],
        pending: &[],
    },
    Order {
        src: "crates/ring/src",
        modules: &[
            "trace",
            "options",
            "thread",
            "op",
            "cqe",
            "perform",
            "attempt",
            "backend_io",
            "direct",
            "job",
            "locks",
            "sqe",
            "pool",
            "pool_client",
            "ring",
            "future",
        ],
        pending: &[],
    },
    Order {
        src: "crates/backends/overlay/src",
        modules: &[
            "progress",
            "options",
            "layer",
            "marks",
            "origin_mark",
            "whiteout",
            "counts",
            "listings",
            "merged_lookup",
            "fs",
            "attrs",
            "change_list",
            "node",
            "lent",
            "adopt",
            "lookup",
            "list",
            "taken",
            "staged",
            "copy_up",
            "names",
            "rename",
            "open",
            "data",
            "invalidation",
            "ops",
            "superblock",
            "moved",
            "changes",
        ],
        pending: &[],
    },
    Order {
        src: "crates/backends/mem/src",
        modules: &[
            "page_map",
            "preallocated",
            "options",
            "budget",
            "memory",
            "space",
            "seal",
            "symlink",
            "data",
            "entries",
            "xattr_map",
            "node",
            "xattr",
            "make",
            "dir",
            "file",
            "copy",
            "rename",
            "ioctl",
            "ops",
            "superblock",
        ],
        pending: &[],
    },
    Order {
        src: "crates/backends/host/src",
        modules: &[
            "sys",
            "enforced",
            "lease_waits",
            "options",
            "pool",
            "watches",
            "kernel_ring",
            "tree",
            "node",
            "handles",
            "owner",
            "acl",
            "refresh",
            "adopt",
            "events",
            "lookup",
            "unlink",
            "attr",
            "set_acl",
            "create",
            "rename",
            "xattr",
            "list",
            "open",
            "data",
            "async_io",
            "ops",
            "superblock",
            "stall",
        ],
        pending: &[],
    },
    Order {
        src: "crates/commit/src",
        modules: &[
            "report",
            "stored_bytes",
            "attributes",
            "host",
            "copies",
            "journal",
            "kept",
            "scan",
            "plan",
            "transaction",
            "rollback",
            "apply",
            "commit",
            "fault_injection",
        ],
        pending: &[],
    },
    Order {
        src: "crates/faces/run/src",
        modules: &[
            // What a run is to be.
            "pattern",
            "size",
            "limit",
            "share",
            "namespace_kind",
            "verbs",
            "engine",
            "plan",
            "spec",
            // Processes, namespaces and groups.
            "wire",
            "child",
            "signals",
            "terminate",
            "left_processes",
            "pid_limit",
            "confine",
            "devices",
            "links",
            "detached",
            "host_mounts",
            "mount_flags",
            "cgroup",
            "host_cgroups",
            // The view, and what changed in it.
            "absent",
            "check",
            "protection",
            "changes",
            "view_members",
            "view_users",
            "live",
            "guard",
            "session_waiter",
            "log",
            "init",
            "kernel_overlay",
            "namespaces",
            "view",
            "kernel_upper",
            "kernel_part",
            "inspect",
            "commit",
            // The processes of a run.
            "doctor",
            "inherited",
            "stage",
            "helper",
            "server",
            "server_client",
            "running_command",
            "front",
            "in_process",
            "relay",
            "join",
        ],
        pending: &[],
    },
    Order {
        src: "crates/faces/wasi/src",
        modules: &[
            "clocks",
            "errno",
            "types",
            "streams",
            "table",
            "guest",
            "builder",
            "sys",
            "cache",
            "out",
            "component",
            "exit",
            "memory",
            "p1",
        ],
        pending: &[],
    },
    Order {
        src: "crates/conformance/src",
        modules: &[
            "errno", "how", "host", "case", "parse", "suite", "report", "run", "kernel", "bin",
        ],
        pending: &[],
    },
    Order {
        src: "crates/cli/src",
        modules: &[
            "console",
            "error",
            "outcome",
            "copying",
            "scene",
            "line_diff",
            "summary",
            "bars",
            "trace",
            "cmd",
        ],
        pending: &[],
    },
    Order {
        src: "crates/testkit-sqlite/src",
        modules: &[
            "lock_bytes",
            "fault",
            "wal_index",
            "task_vfs",
            "shm",
            "file",
            "sys",
        ],
        pending: &[],
    },
    Order {
        src: "crates/xtask/src",
        modules: &["tidy", "gates", "cmd"],
        pending: &[],
    },
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    check_orders(ORDERS, tree, report);
}

fn check_orders(orders: &[Order], tree: &Tree, report: &mut Report) {
    for order in orders {
        let mut met = BTreeSet::new();
        for file in tree.rust() {
            let Some(path) = module_path(order.src, &file.path) else {
                continue;
            };
            check_file(order, file, &path, &mut met, report);
        }
        for (from, to) in order.pending {
            if !met.contains(&((*from).to_owned(), (*to).to_owned())) {
                let text = format!("`{from}` does not use `{to}` any more: delete the exception");
                report.fail(RULE, order.src, 0, text);
            }
        }
    }
}

fn check_file(
    order: &Order,
    file: &Source,
    path: &[&str],
    met: &mut BTreeSet<(String, String)>,
    report: &mut Report,
) {
    let Some(from) = path.first() else {
        return;
    };
    let place = |name: &str| order.modules.iter().position(|module| *module == name);
    let Some(rank) = place(from) else {
        let text = format!("module `{from}` has no place in the order of its crate");
        report.fail(RULE, &file.path, 0, text);
        return;
    };
    for (line, name) in imports(file, path) {
        match place(&name) {
            Some(used) if used <= rank => {}
            Some(_) if order.pending.contains(&(*from, name.as_str())) => {
                met.insert(((*from).to_owned(), name));
            }
            Some(_) => {
                let text = format!("`{from}` may not use `{name}`, which stands above it");
                report.fail(RULE, &file.path, line, text);
            }
            None if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                let text = format!("`crate::{name}`: name the module that defines it");
                report.fail(RULE, &file.path, line, text);
            }
            None => {}
        }
    }
}

/// The modules around a file of the crate, from the top; none for the crate's root.
fn module_path<'a>(src: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let rest = path.strip_prefix(src)?.strip_prefix('/')?;
    let mut parts: Vec<&str> = rest.split('/').collect();
    let last = parts.pop()?.strip_suffix(".rs")?;
    match last {
        "mod" => {}
        "lib" | "main" if parts.is_empty() => {}
        _ => parts.push(last),
    }
    Some(parts)
}

/// The first names below the crate's root in all paths of a file, each with its line.
fn imports(file: &Source, path: &[&str]) -> Vec<(usize, String)> {
    let tokens = tokens(file);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((_, token)) = tokens.get(at) {
        let start = at;
        let supers = tokens[at..]
            .chunks(2)
            .take_while(|pair| pair[0].1 == "super" && pair.get(1).is_some_and(|t| t.1 == "::"))
            .count();
        // `$crate` in a macro names the root: its users are other crates.
        let in_macro = start
            .checked_sub(1)
            .is_some_and(|before| tokens[before].1 == "$");
        if token == "crate" && !in_macro && tokens.get(at + 1).is_some_and(|t| t.1 == "::") {
            at = first_names(&tokens, at + 2, &mut found);
        } else if supers > 0 && supers == path.len() {
            at = first_names(&tokens, at + 2 * supers, &mut found);
        } else {
            at += 2 * supers;
        }
        at = at.max(start + 1);
    }
    found
}

/// The name that begins at a token, or the first names of the group that begins there; returns the
/// next token.
fn first_names(
    tokens: &[(usize, String)],
    start: usize,
    found: &mut Vec<(usize, String)>,
) -> usize {
    let Some((line, first)) = tokens.get(start) else {
        return start;
    };
    if first != "{" {
        found.push((*line, first.clone()));
        return start + 1;
    }
    let mut depth = 0;
    let mut fresh = false;
    for (at, (line, token)) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" => {
                depth += 1;
                fresh = depth == 1;
            }
            "}" => depth -= 1,
            "," => fresh = depth == 1,
            name if fresh => {
                found.push((*line, name.to_owned()));
                fresh = false;
            }
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The words, `::` and other marks of the code outside tests.
fn tokens(file: &Source) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    for (at, line) in file.code() {
        let mut rest = line.code.trim_start();
        while let Some(c) = rest.chars().next() {
            let length = match c {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            all.push((at, rest[..length].to_owned()));
            rest = rest[length..].trim_start();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::{Report, Tree};
    use super::{Order, check_orders};

    const SRC: &str = "crates/a/src";

    fn found(pending: &'static [(&str, &str)], files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let order = Order {
            src: SRC,
            modules: &["low", "middle", "high"],
            pending,
        };
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("{SRC}/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        let mut report = Report::default();
        check_orders(&[order], &Tree::of(&files), &mut report);
        let findings = report.findings.into_iter();
        findings.map(|found| (found.path, found.line)).collect()
    }

    #[test]
    fn upward_import_is_reported_in_each_form() {
        for text in [
            "use crate::high::Thing;\n",
            "use crate::high;\n",
            "use crate::{low::A, high::B};\n",
            "use crate::{\n    low::{A, B},\n    high::B,\n};\n",
            "fn f() { crate::high::go() }\n",
            "use super::high::Thing;\n",
            "use super::{low, high};\n",
        ] {
            assert_eq!(found(&[], &[("middle.rs", text)]).len(), 1, "{text}");
            assert_eq!(found(&[], &[("high.rs", text)]), [], "{text}");
        }
        let deep = "use super::super::high::Thing;\n";
        assert_eq!(found(&[], &[("middle/part.rs", deep)]).len(), 1);
        assert_eq!(
            found(&[], &[("middle/mod.rs", "use super::high;\n")]).len(),
            1
        );
        assert_eq!(found(&[], &[("middle/part.rs", "use super::high;\n")]), []);
        let circle = [
            ("low.rs", "use crate::middle;\n"),
            ("middle.rs", "use crate::low;\n"),
        ];
        assert_eq!(found(&[], &circle).len(), 1);
    }

    #[test]
    fn macro_of_other_crates_may_name_the_root() {
        let text = "macro_rules! m { () => { $crate::Thing } }\n";
        assert_eq!(found(&[], &[("low.rs", text)]), []);
    }

    #[test]
    fn import_through_root_is_reported() {
        assert_eq!(found(&[], &[("high.rs", "use crate::Thing;\n")]).len(), 1);
        assert_eq!(
            found(&[], &[("lib.rs", "pub use crate::high::Thing;\n")]),
            []
        );
    }

    #[test]
    fn tests_and_comments_may_name_any_module() {
        let text = "// crate::high\n#[cfg(test)]\nmod tests {\n    use crate::high::A;\n}\n";
        assert_eq!(found(&[], &[("low.rs", text), ("low/tests.rs", text)]), []);
    }

    #[test]
    fn exception_covers_its_import_and_must_be_used() {
        let text = "use crate::high::A;\n";
        let pending = &[("low", "high")];
        assert_eq!(found(pending, &[("low.rs", text)]), []);
        assert_eq!(
            found(pending, &[("middle.rs", text), ("low.rs", text)]).len(),
            1
        );
        assert_eq!(found(pending, &[("low.rs", "")]), [(SRC.to_owned(), 0)]);
    }

    #[test]
    fn module_without_place_is_reported() {
        assert_eq!(found(&[], &[("other.rs", "")]).len(), 1);
    }
}
