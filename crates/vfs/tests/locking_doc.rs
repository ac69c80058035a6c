// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `docs/LOCKING.md` agrees with the lock order in the code.
//!
//! `UPDATE_DOCS=1 cargo test -p openpath-vfs --test locking_doc` writes it again.

use openpath_vfs::lock_order::CLASSES;
use std::fmt::Write as _;
use std::path::Path;

/// The page as the code defines it.
fn page() -> String {
    let mut page = [
        "# The lock order",
        "",
        "This table is generated from `crates/vfs/src/lock_order.rs`. A thread takes locks",
        "downwards only, and debug builds check that at every lock. `two at once` says whether a",
        "thread may hold two locks of the class. Below all of them are the lock bits of the dentry",
        "cache (a bucket, a list of children) and the life words. A thread holds these for a few",
        "stores, and waits for nothing meanwhile.",
        "",
        "| rank | class | two at once | protects |",
        "|---|---|---|---|",
        "",
    ]
    .join("\n");
    for class in CLASSES {
        let nests = if class.nests { "yes" } else { "no" };
        let doc = class.doc.trim();
        writeln!(
            page,
            "| {} | `{}` | {nests} | {doc} |",
            class.rank, class.name
        )
        .expect("writing to a string");
    }
    page
}

#[test]
fn the_page_matches_the_lock_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/LOCKING.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("writing the page");
    }
    let written = std::fs::read_to_string(&path).expect("reading the page");
    assert!(
        written == page(),
        "docs/LOCKING.md differs: run with UPDATE_DOCS=1"
    );
}
