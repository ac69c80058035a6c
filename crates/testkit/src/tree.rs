// SPDX-License-Identifier: MIT OR Apache-2.0
//! A picture of a whole tree, taken from its root, and the difference of two.
//!
//! # Rules
//! * Taking a picture changes nothing that the next picture or operation could see: no link body
//!   is read before the last picture, and directories are read without touching their times.
//! * Entries are sorted by name; mounts are crossed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::op::{Arg, Path};
use crate::outcome::{Desc, StatView};

/// How much a picture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Tables of descriptors.
    Tables,
    /// Names and attributes as well.
    Light,
    /// Data, link bodies and extended attributes as well.
    Deep,
}

/// Most entries that a picture holds; both faces stop at the same one.
pub const NODES_MAX: usize = 300;
/// Most bytes of one file that a picture holds.
pub const DATA_MAX: usize = 20_000;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path from the root; the root's own is empty.
    pub path: Vec<u8>,
    /// Its attributes.
    pub stat: StatView,
    /// What does not fit a directory entry of it: a type or inode number that differs.
    pub odd: Option<&'static str>,
    /// Data of a file, body of a link.
    pub data: Option<Vec<u8>>,
    /// Extended attributes, sorted.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A picture of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Depth first, in the order of the names.
    pub nodes: Vec<Node>,
    /// The descriptors of each task, in the order of their numbers.
    pub tables: Vec<Vec<Desc>>,
    /// What went wrong while it was taken.
    pub trouble: Vec<String>,
}

/// What differs between two pictures, a line each; nothing if they are the same.
#[must_use]
pub fn diff(left: (&str, &Tree), right: (&str, &Tree)) -> String {
    let mut out = String::new();
    let ((ln, l), (rn, r)) = (left, right);
    for (name, tree) in [left, right] {
        for line in &tree.trouble {
            let _ = writeln!(out, "    {name}: {line}");
        }
    }
    for node in &l.nodes {
        match r.nodes.iter().find(|n| n.path == node.path) {
            None => only(ln, node, &mut out),
            Some(other) if other != node => node_diff((ln, node), (rn, other), &mut out),
            Some(_) => {}
        }
    }
    for node in r
        .nodes
        .iter()
        .filter(|n| l.nodes.iter().all(|o| o.path != n.path))
    {
        only(rn, node, &mut out);
    }
    tables_diff(left, right, &mut out);
    if out.is_empty() && l != r {
        out.push_str("    the order of the entries differs\n");
    }
    out
}

fn tables_diff(left: (&str, &Tree), right: (&str, &Tree), out: &mut String) {
    let ((ln, l), (rn, r)) = (left, right);
    let of = |tree: &Tree, task: usize, fd: i32| -> Option<Desc> {
        tree.tables.get(task)?.iter().find(|d| d.fd == fd).cloned()
    };
    for task in 0..l.tables.len().max(r.tables.len()) {
        let both = [l, r].map(|t| t.tables.get(task).into_iter().flatten());
        let numbers: BTreeSet<i32> = both.into_iter().flatten().map(|d| d.fd).collect();
        for fd in numbers {
            let (a, b) = (of(l, task, fd), of(r, task, fd));
            if a != b {
                let _ = writeln!(
                    out,
                    "    task {task} descriptor {fd}: differs\n      {ln} {a:?}\n      {rn} {b:?}"
                );
            }
        }
    }
}

fn word(path: &[u8]) -> String {
    let mut w = String::from("/");
    if !path.is_empty() {
        Path(path.to_vec()).put(&mut w);
    }
    w
}

fn only(face: &str, node: &Node, out: &mut String) {
    let _ = writeln!(
        out,
        "    only {face} has {} {:?}",
        word(&node.path),
        node.stat
    );
}

fn node_diff(left: (&str, &Node), right: (&str, &Node), out: &mut String) {
    let ((ln, l), (rn, r)) = (left, right);
    let mut field = |what: &str, a: String, b: String| {
        if a != b {
            let _ = writeln!(out, "    {}: {what}: {ln} {a}, {rn} {b}", word(&l.path));
        }
    };
    let (a, b) = (&l.stat, &r.stat);
    field("inode", format!("{:?}", a.inode), format!("{:?}", b.inode));
    field("dev", format!("{:?}", a.dev), format!("{:?}", b.dev));
    field("mode", format!("{:o}", a.mode), format!("{:o}", b.mode));
    field("nlink", a.nlink.to_string(), b.nlink.to_string());
    field(
        "owner",
        format!("{}:{}", a.uid, a.gid),
        format!("{}:{}", b.uid, b.gid),
    );
    field("rdev", format!("{:x}", a.rdev), format!("{:x}", b.rdev));
    field("size", a.size.to_string(), b.size.to_string());
    field("blksize", a.blksize.to_string(), b.blksize.to_string());
    field("blocks", a.blocks.to_string(), b.blocks.to_string());
    field("atime", format!("{:?}", a.atime), format!("{:?}", b.atime));
    field("mtime", format!("{:?}", a.mtime), format!("{:?}", b.mtime));
    field("ctime", format!("{:?}", a.ctime), format!("{:?}", b.ctime));
    field("entry", format!("{:?}", l.odd), format!("{:?}", r.odd));
    field("data", shown(l.data.as_deref()), shown(r.data.as_deref()));
    field("xattrs", xattrs(l), xattrs(r));
}

fn shown(data: Option<&[u8]>) -> String {
    let Some(data) = data else {
        return "none".to_owned();
    };
    let mut w = format!("{} bytes ", data.len());
    Path(data.to_vec()).put(&mut w);
    w
}

fn xattrs(node: &Node) -> String {
    let one = |(k, v): &(Vec<u8>, Vec<u8>)| format!("{}={}", k.escape_ascii(), v.escape_ascii());
    node.xattrs.iter().map(one).collect::<Vec<_>>().join(" ")
}
