// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the files that the rules of `cargo xtask tidy` check.

use super::lexer::{Line, scan};
use std::fs;
use std::io;
use std::path::Path;

/// One file.
#[derive(Debug)]
pub struct Source {
    /// Path relative to the root of the tree, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
    /// Its lines, split; empty unless it is a Rust file.
    pub lines: Vec<Line>,
}

/// The files of the tree.
#[derive(Debug, Default)]
pub struct Tree {
    files: Vec<Source>,
}

/// The folders to read, besides the files in the root.
const FOLDERS: &[&str] = &["crates", "docs"];

impl Tree {
    /// Reads the tree below `root`: Rust files, manifests and pages.
    ///
    /// # Errors
    /// Those of reading a folder or a file, or a file that is not UTF-8.
    pub fn load(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        for entry in fs::read_dir(root)? {
            tree.add(root, &entry?.path())?;
        }
        for folder in FOLDERS {
            if root.join(folder).is_dir() {
                tree.walk(root, &root.join(folder))?;
            }
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// A tree from paths and texts, for tests.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| Source::new(path, (*text).to_owned()));
        Tree {
            files: files.collect(),
        }
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The manifests of the crates.
    pub fn manifests(&self) -> impl Iterator<Item = &Source> {
        let mut files = self.files.iter();
        std::iter::from_fn(move || {
            files.find(|f| f.path.starts_with("crates/") && f.path.ends_with("/Cargo.toml"))
        })
    }

    /// The pages.
    pub fn pages(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    /// The file of this path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Source> {
        self.files.iter().find(|file| file.path == path)
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn walk(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "target" {
                    self.walk(root, &entry.path())?;
                }
            } else {
                self.add(root, &entry.path())?;
            }
        }
        Ok(())
    }

    fn add(&mut self, root: &Path, path: &Path) -> io::Result<()> {
        let known = path.extension().and_then(|ext| ext.to_str());
        if path.is_file() && matches!(known, Some("rs" | "toml" | "md")) {
            let name = path
                .strip_prefix(root)
                .unwrap_or(path)
                .to_string_lossy()
                .into_owned();
            self.files
                .push(Source::new(&name, fs::read_to_string(path)?));
        }
        Ok(())
    }
}

impl Source {
    fn new(path: &str, text: String) -> Source {
        let lines = if path.ends_with(".rs") {
            scan(&text)
        } else {
            Vec::new()
        };
        Source {
            path: path.to_owned(),
            text,
            lines,
        }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The last component of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether all of it is test, benchmark or example.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let inside = |folder: &str| self.path.contains(folder);
        inside("/tests/")
            || inside("/benches/")
            || inside("/examples/")
            || self.name() == "tests.rs"
    }

    /// The lines outside tests, with their numbers.
    pub fn code(&self) -> impl Iterator<Item = (usize, &Line)> {
        let all_test = self.is_test();
        self.numbered()
            .filter(move |(_, line)| !all_test && !line.test)
    }

    /// All lines with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines
            .iter()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use std::path::Path;

    #[test]
    fn own_repository_is_loaded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let tree = Tree::load(&root).expect("the tree can be read");
        assert!(
            tree.get("crates/xtask/src/tidy/tree.rs")
                .is_some_and(|f| f.lines.len() > 100)
        );
        assert!(tree.get("Cargo.toml").is_some());
        assert!(
            tree.manifests()
                .any(|file| file.path == "crates/xtask/Cargo.toml")
        );
        assert!(tree.rust().all(|file| !file.path.contains("/target/")));
    }

    #[test]
    fn tests_are_told_from_code() {
        let tree = Tree::of(&[
            (
                "crates/a/src/x.rs",
                "fn a() {}\n#[cfg(test)]\nmod t {\n}\nfn b() {}\n",
            ),
            ("crates/a/src/x/tests.rs", "fn a() {}\n"),
            ("crates/a/tests/x.rs", "fn a() {}\n"),
        ]);
        let code: Vec<(String, usize)> = tree
            .rust()
            .flat_map(|file| file.code().map(|(line, _)| (file.path.clone(), line)))
            .collect();
        let expected = [1, 5].map(|line| ("crates/a/src/x.rs".to_owned(), line));
        assert_eq!(code, expected);
    }
}
