// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a snapshot of a tree and of the places of its tasks, by five queries that openpath and the
//! host both answer.

use std::collections::BTreeMap;

use openpath_abi::{Errno, Stat, mode};

use crate::mounts;
use crate::outcome::{Desc, Ids, Stamps, StatView};
use crate::scan::Entry;
use crate::tree::{DATA_MAX, Depth, NODES_MAX, Node, Place, RawTask, Tree};

/// Names and values of extended attributes.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// The queries, made as root; a path is relative to a root, and empty for the root itself.
///
/// Each fails with the error of its call.
#[expect(clippy::missing_errors_doc, reason = "said once, for all of them")]
pub trait TreeReader {
    /// Attributes, without following the last link.
    fn lstat(&mut self, path: &[u8]) -> Result<Stat, Errno>;
    /// All entries of a directory, without changing its times.
    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, Errno>;
    /// At most this many bytes of a regular file, without changing its times.
    fn data(&mut self, path: &[u8], max: usize) -> Result<Vec<u8>, Errno>;
    /// The body of a link.
    fn body(&mut self, path: &[u8]) -> Result<Vec<u8>, Errno>;
    /// All listed extended attributes, with their values.
    fn xattrs(&mut self, path: &[u8]) -> Result<Xattrs, Errno>;
}

/// The path relative to the working directory, which becomes the root of the tree.
pub(crate) fn relative(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

/// Takes a snapshot: of the case's root by the first reader, of the tasks' roots by the others. The
/// tasks themselves were inspected before.
pub fn take_snapshot(
    readers: &mut [&mut dyn TreeReader],
    ids: &mut Ids,
    stamps: &Stamps,
    depth: Depth,
    tasks: Vec<RawTask>,
) -> Tree {
    let tables = |ids: &Ids| {
        let row = |t: &RawTask| t.table.iter().map(|d| Desc::new(d, ids, stamps)).collect();
        tasks.iter().map(row).collect()
    };
    if depth == Depth::Tables {
        return Tree {
            tables: tables(ids),
            ..Tree::default()
        };
    }
    ids.begin();
    let mut whole = Tree::default();
    for (i, reader) in readers.iter_mut().enumerate() {
        let mut taker = Taker {
            reader: &mut **reader,
            ids,
            stamps,
            depth,
            tree: Tree::default(),
        };
        match taker.reader.lstat(b"") {
            // The directory entry of a changed root shows what lies above it.
            Ok(stat) => taker.node(Vec::new(), &stat, None, (i == 0).then_some(stat.ino)),
            Err(e) => taker.tree.trouble.push(format!("stat of the root: {e}")),
        }
        let seen = taker.tree;
        whole.trouble.extend(seen.trouble);
        match i {
            0 => whole.nodes = seen.nodes,
            _ => whole.views.push(seen.nodes),
        }
    }
    let places = tasks.iter().filter_map(|t| t.place.as_ref());
    let held = tasks.iter().flat_map(|t| &t.table).filter_map(|d| d.stat);
    for stat in held.chain(places.flat_map(|p| [p.root, p.cwd]).flatten()) {
        ids.meet(stat.dev, stat.ino);
    }
    ids.end();
    whole.tables = tables(ids);
    whole.places = places_of(tasks, ids, stamps, &mut whole.trouble);
    whole
}

/// Places of the tasks in comparable form.
fn places_of(
    tasks: Vec<RawTask>,
    ids: &Ids,
    stamps: &Stamps,
    trouble: &mut Vec<String>,
) -> Vec<Option<Place>> {
    let mut lines = Vec::new();
    for task in &tasks {
        let mounts = task.place.as_ref().map(|p| p.mounts.clone());
        lines.push(mounts.unwrap_or(Ok(Vec::new())).unwrap_or_else(|e| {
            trouble.push(e);
            Vec::new()
        }));
    }
    let tables = mounts::comparable(lines);
    let view = |s: Result<Stat, Errno>| s.map(|s| StatView::new(&s, ids, stamps));
    let pairs = tasks.into_iter().zip(tables);
    let place = pairs.map(|(task, mounts)| {
        task.place.map(|p| Place {
            mounts,
            root: view(p.root),
            cwd: view(p.cwd),
            cwd_path: p.cwd_path,
        })
    });
    place.collect()
}

struct Taker<'a> {
    reader: &'a mut dyn TreeReader,
    ids: &'a mut Ids,
    stamps: &'a Stamps,
    depth: Depth,
    tree: Tree,
}

impl Taker<'_> {
    /// Adds a node and all nodes beneath it; `up` is the inode number that its `..` should show, if
    /// known.
    fn node(&mut self, path: Vec<u8>, stat: &Stat, odd: Option<&'static str>, up: Option<u64>) {
        self.ids.meet(stat.dev, stat.ino);
        let view = StatView::new(stat, self.ids, self.stamps);
        let (data, xattrs) = match self.depth {
            Depth::Tables | Depth::Light | Depth::Mounts => (None, Vec::new()),
            Depth::Deep => self.depths(&path, stat),
        };
        let is_dir = mode::is_dir(stat.mode);
        self.tree.nodes.push(Node {
            path: path.clone(),
            stat: view,
            odd,
            data,
            xattrs,
        });
        if is_dir {
            self.children(&path, stat, up);
        }
    }

    fn trouble(&mut self, what: &str, path: &[u8], e: Errno) {
        self.tree
            .trouble
            .push(format!("{what} /{}: {e}", path.escape_ascii()));
    }

    /// Reads the data and extended attributes of one node.
    fn depths(&mut self, path: &[u8], stat: &Stat) -> (Option<Vec<u8>>, Xattrs) {
        let data = match mode::file_type(stat.mode) {
            mode::S_IFREG => Some(self.reader.data(path, DATA_MAX)),
            mode::S_IFLNK => Some(self.reader.body(path)),
            _ => None,
        };
        let data = data.and_then(|d| d.map_err(|e| self.trouble("read", path, e)).ok());
        let mut xattrs = self.reader.xattrs(path).unwrap_or_else(|e| {
            self.trouble("listxattr", path, e);
            Vec::new()
        });
        xattrs.sort();
        (data, xattrs)
    }

    fn children(&mut self, path: &[u8], stat: &Stat, up: Option<u64>) {
        let entries = match self.reader.list(path) {
            Ok(entries) => entries,
            // A removed directory that another mount still shows.
            Err(Errno::ENOENT) => {
                if let Some(node) = self.tree.nodes.last_mut() {
                    node.odd = Some("removed");
                }
                return;
            }
            Err(e) => return self.trouble("list", path, e),
        };
        let mut sorted = BTreeMap::new();
        for e in entries {
            if let Some(twice) = sorted.insert(e.name.clone(), e) {
                let text = format!("/{}: {:?} twice", path.escape_ascii(), twice.name);
                self.tree.trouble.push(text);
            }
        }
        // An overlay of Linux does not always list the inode numbers that stat(2) shows (L42).
        let listed = !self.stamps.stacked;
        for (dot, ino) in [(&b"."[..], Some(stat.ino)), (b"..", up)] {
            let ino = ino.filter(|_| listed);
            match sorted.remove(dot) {
                Some(e)
                    if ino.is_none_or(|i| e.ino == i) && e.kind == openpath_abi::dirent::DT_DIR => {
                }
                other => self.tree.trouble.push(format!(
                    "/{}: {}: {other:?}, wanted a directory, inode {ino:?}",
                    path.escape_ascii(),
                    dot.escape_ascii(),
                )),
            }
        }
        for (name, entry) in sorted {
            if self.tree.nodes.len() >= NODES_MAX {
                return;
            }
            let mut child = path.to_vec();
            if !child.is_empty() {
                child.push(b'/');
            }
            child.extend_from_slice(&name);
            match self.reader.lstat(&child) {
                Ok(s) => {
                    let odd = oddity(&entry, &s, stat.dev);
                    let odd = odd.filter(|odd| listed || *odd != OTHER_INODE);
                    let up = odd.is_none().then_some(stat.ino);
                    self.node(child, &s, odd, up);
                }
                Err(e) => self.trouble("stat", &child, e),
            }
        }
    }
}

/// The entry has the number of another inode, as a mount point's entry does.
const OTHER_INODE: &str = "other inode";

/// How a directory entry contradicts the object that its name leads to.
fn oddity(entry: &Entry, stat: &Stat, dev: u64) -> Option<&'static str> {
    if stat.dev != dev {
        Some("other device")
    } else if entry.ino != stat.ino {
        Some(OTHER_INODE)
    } else if entry.kind != mode::dirent_type(stat.mode) {
        Some("other type")
    } else {
        None
    }
}
