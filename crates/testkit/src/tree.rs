// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds a snapshot of a case's whole tree and of its tasks, and lists the differences of two.
//!
//! # Rules
//! * Taking a snapshot changes nothing that the next snapshot or operation could see: no link body
//!   is read before the last snapshot, and directories are read without changing their times.
//! * Entries are sorted by name; mounts are crossed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use openpath_abi::{Errno, Stat};

use crate::mounts::Line;
use crate::op::{Arg, Path};
use crate::outcome::{Desc, RawDesc, StatView};

/// How much a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Tables of descriptors.
    Tables,
    /// Names and attributes as well.
    Light,
    /// Mounts and where each task is as well.
    Mounts,
    /// Data, link bodies and extended attributes as well.
    Deep,
}

/// The most entries in a snapshot; both sides stop at the same one.
pub const NODES_MAX: usize = 300;
/// The most bytes of one file in a snapshot.
pub const DATA_MAX: usize = 20_000;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path from the root, which is empty for the root itself.
    pub path: Vec<u8>,
    /// Its attributes.
    pub stat: StatView,
    /// How its directory entry contradicts it: a type or inode number that differs.
    pub odd: Option<&'static str>,
    /// Data of a file, body of a link.
    pub data: Option<Vec<u8>>,
    /// Extended attributes, sorted.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The state of a task as a side reads it.
#[derive(Debug, Default)]
pub struct RawTask {
    /// Its descriptors, in numerical order.
    pub table: Vec<RawDesc>,
    /// Its place, if requested.
    pub place: Option<RawPlace>,
}

/// The place of a task as a side reads it.
#[derive(Debug)]
pub struct RawPlace {
    /// The mounts that it sees.
    pub mounts: Result<Vec<Line>, String>,
    /// Its root.
    pub root: Result<Stat, Errno>,
    /// Its working directory.
    pub cwd: Result<Stat, Errno>,
    /// The result of getcwd(2).
    pub cwd_path: Result<Vec<u8>, Errno>,
}

/// The place of a task in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the raw one")]
pub struct Place {
    pub mounts: Vec<String>,
    pub root: Result<StatView, Errno>,
    pub cwd: Result<StatView, Errno>,
    pub cwd_path: Result<Vec<u8>, Errno>,
}

/// A picture of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Depth first, in the order of the names.
    pub nodes: Vec<Node>,
    /// In a deep snapshot, the tree that each task sees.
    pub views: Vec<Vec<Node>>,
    /// The descriptors of each task, in numerical order.
    pub tables: Vec<Vec<Desc>>,
    /// The place of each task.
    pub places: Vec<Option<Place>>,
    /// Faults while it was taken.
    pub trouble: Vec<String>,
}

/// The differences of two snapshots, a line each; empty if they are the same.
#[must_use]
pub fn diff(left: (&str, &Tree), right: (&str, &Tree)) -> String {
    let mut out = String::new();
    let ((ln, l), (rn, r)) = (left, right);
    for (name, tree) in [left, right] {
        for line in &tree.trouble {
            let _ = writeln!(out, "    {name}: {line}");
        }
    }
    nodes_diff("", (ln, &l.nodes), (rn, &r.nodes), &mut out);
    for task in 0..l.views.len().max(r.views.len()) {
        let of = |tree: &'_ Tree| tree.views.get(task).cloned().unwrap_or_default();
        let (a, b) = (of(l), of(r));
        nodes_diff(&format!("task {task}: "), (ln, &a), (rn, &b), &mut out);
    }
    places_diff(left, right, &mut out);
    tables_diff(left, right, &mut out);
    if out.is_empty() && l != r {
        out.push_str("    the order of the entries differs\n");
    }
    out
}

fn nodes_diff(whose: &str, left: (&str, &[Node]), right: (&str, &[Node]), out: &mut String) {
    let ((ln, l), (rn, r)) = (left, right);
    for node in l {
        match r.iter().find(|n| n.path == node.path) {
            None => only(whose, ln, node, out),
            Some(other) if other != node => node_diff(whose, (ln, node), (rn, other), out),
            Some(_) => {}
        }
    }
    for node in r.iter().filter(|n| l.iter().all(|o| o.path != n.path)) {
        only(whose, rn, node, out);
    }
}

fn places_diff(left: (&str, &Tree), right: (&str, &Tree), out: &mut String) {
    let ((ln, l), (rn, r)) = (left, right);
    for task in 0..l.places.len().max(r.places.len()) {
        let of = |tree: &'_ Tree| tree.places.get(task).cloned().flatten();
        let (Some(a), Some(b)) = (of(l), of(r)) else {
            if of(l) != of(r) {
                let _ = writeln!(out, "    task {task}: only one side reports its place");
            }
            continue;
        };
        for line in a.mounts.iter().filter(|m| !b.mounts.contains(m)) {
            let _ = writeln!(out, "    task {task}: {ln} has mount: {line}");
        }
        for line in b.mounts.iter().filter(|m| !a.mounts.contains(m)) {
            let _ = writeln!(out, "    task {task}: {rn} has mount: {line}");
        }
        let mut field = |what: &str, a: String, b: String| {
            if a != b {
                let _ = writeln!(out, "    task {task}: {what}: {ln} {a}, {rn} {b}");
            }
        };
        field("root", format!("{:?}", a.root), format!("{:?}", b.root));
        field("cwd", format!("{:?}", a.cwd), format!("{:?}", b.cwd));
        let name = |p: &Place| {
            let path = p.cwd_path.clone();
            path.map_or_else(|e| e.to_string(), |p| p.escape_ascii().to_string())
        };
        field("getcwd", name(&a), name(&b));
    }
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

fn only(whose: &str, side: &str, node: &Node, out: &mut String) {
    let _ = writeln!(
        out,
        "    {whose}only {side} has {} {:?}",
        word(&node.path),
        node.stat
    );
}

fn node_diff(whose: &str, left: (&str, &Node), right: (&str, &Node), out: &mut String) {
    let ((ln, l), (rn, r)) = (left, right);
    let mut field = |what: &str, a: String, b: String| {
        if a != b {
            let path = word(&l.path);
            let _ = writeln!(out, "    {whose}{path}: {what}: {ln} {a}, {rn} {b}");
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
