// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses what a command line says of sizes, paths, name patterns, upper trees and extra mounts.

use crate::pattern;
use crate::plan::{ExtraMount, TreeSource, Upper};
pub use crate::size::size;
use openpath_commit::{PathBytes, Refusal};
use std::path::{Component, Path};

/// An absolute path without `.` and `..`, from `cwd` on.
///
/// # Errors
/// A path with `..`, which only the file system can resolve.
pub fn absolute(cwd: &Path, path: &Path) -> Result<PathBytes, Refusal> {
    let mut whole = std::path::PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                let text = format!("{}: write the path without `..`", path.display());
                return Err(Refusal::usage(text));
            }
            part => whole.push(part),
        }
    }
    Ok(whole.as_path().into())
}

/// Resolves a path from `cwd` on. Links in its existing directories are followed, and the missing
/// rest is kept as it is.
///
/// # Errors
/// `..` in the rest.
pub fn resolve(cwd: &Path, path: &Path) -> Result<PathBytes, Refusal> {
    let whole = cwd.join(path);
    let mut ways = whole.ancestors();
    let found = ways.find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = found else {
        return absolute(cwd, path);
    };
    let rest = whole.strip_prefix(above).unwrap_or(Path::new(""));
    if rest.components().any(|part| part == Component::ParentDir) {
        return absolute(cwd, path);
    }
    absolute(&real, rest)
}

/// The paths to hide for a path: the name itself, and its target if it is a link.
///
/// # Errors
/// Those of [`absolute`].
pub fn hidden_names(cwd: &Path, path: &Path) -> Result<Vec<PathBytes>, Refusal> {
    let leads = resolve(cwd, path)?;
    let whole = cwd.join(path);
    let (Some(dir), Some(name)) = (whole.parent(), whole.file_name()) else {
        return Ok(vec![leads]);
    };
    let name: PathBytes = resolve(cwd, dir)?.path().join(name).as_path().into();
    let mut names = vec![name, leads];
    names.dedup();
    Ok(names)
}

/// A pattern of absent names as a plan has it. One with a slash that does not begin with one is
/// relative to the directory `dir`. Links in its directories are followed up to the first that is
/// no plain name.
///
/// # Errors
/// An invalid pattern; a directory with a name that is not UTF-8.
pub fn pattern(dir: &Path, text: &str) -> Result<String, Refusal> {
    let bare = text.strip_prefix("./").unwrap_or(text);
    pattern::expand(bare)?;
    pattern::check_written(bare)?;
    if !text.contains('/') {
        return Ok(text.to_owned());
    }
    let whole = if text.starts_with('/') {
        text.to_owned()
    } else {
        let dir = utf8(dir)?.trim_end_matches('/');
        format!("{}/{}", pattern::escape(dir), bare)
    };
    let plain = pattern::plain(&whole);
    let Some((from, rest)) = plain.filter(|(dir, _)| dir.is_absolute()) else {
        return Ok(whole);
    };
    let to = resolve(Path::new("/"), &from)?;
    if to.path() == from {
        return Ok(whole);
    }
    let to = utf8(to.path())?.trim_end_matches('/');
    Ok(format!("{}/{rest}", pattern::escape(to)))
}

/// A path as text.
///
/// # Errors
/// It is not UTF-8.
pub fn utf8(path: &Path) -> Result<&str, Refusal> {
    path.to_str().ok_or_else(|| {
        let path = path.display();
        Refusal::usage(format!(
            "{path} is not UTF-8, and cannot be in a pattern or in rules"
        ))
    })
}

/// Whether `text` (`memory` or `memory:SIZE`) keeps changes in memory, and not in a directory.
///
/// # Errors
/// `KIND:...` of an unknown kind. As a directory it would be a misspelt `memory:SIZE` without its
/// bound; a directory of this name needs a slash before the colon.
pub fn is_memory(text: &str) -> Result<bool, Refusal> {
    match text.split_once(':') {
        None => Ok(text == "memory"),
        Some(("memory", _)) => Ok(true),
        Some((kind, _)) if !kind.contains('/') => Err(Refusal::usage(format!(
            "`{text}` takes no changes, because `{kind}:` is unknown: write memory:SIZE, or \
             ./{text} for a directory of this name"
        ))),
        Some(_) => Ok(false),
    }
}

/// Parses where changes are kept: `memory`, `memory:SIZE` or a directory.
///
/// # Errors
/// Those of [`is_memory`], [`size`] and [`absolute`].
pub fn upper(cwd: &Path, text: &str) -> Result<Upper, Refusal> {
    if !is_memory(text)? {
        return Ok(Upper::Directory(absolute(cwd, Path::new(text))?));
    }
    let limit = text.split_once(':').map(|(_, limit)| size(limit));
    Ok(Upper::Memory {
        size: limit.transpose()?,
    })
}

/// Parses a tree and its mount point: `DIR=mem[,size=SIZE][,ro]`, `DIR=host:PATH[,ro]` or
/// `DIR=overlay,lower=PATH[,lower=PATH...][,upper=UPPER][,ro]`, with UPPER as in [`upper`].
///
/// # Errors
/// An invalid text, and those of [`size`] and [`absolute`].
pub fn extra_mount(cwd: &Path, text: &str) -> Result<ExtraMount, Refusal> {
    let wrong = || {
        Refusal::usage(format!(
            "`{text}` is no mount: write DIR=mem,size=64M, DIR=host:PATH,ro or \
             DIR=overlay,lower=PATH,upper=memory"
        ))
    };
    let (dir, tree) = text.split_once('=').ok_or_else(wrong)?;
    let mut words = tree.split(',');
    let kind = words.next().unwrap_or_default();
    let mut source = match kind.split_once(':').unwrap_or((kind, "")) {
        ("mem", "") => TreeSource::Memory { size: None },
        ("host", path) if !path.is_empty() => TreeSource::Host(resolve(cwd, Path::new(path))?),
        ("overlay", "") => TreeSource::Overlay {
            lowers: Vec::new(),
            upper: None,
        },
        _ => return Err(wrong()),
    };
    let mut read_only = false;
    for word in words {
        match (word.split_once('=').unwrap_or((word, "")), &mut source) {
            (("ro", ""), _) => read_only = true,
            (("size", limit), TreeSource::Memory { size: known }) => *known = Some(size(limit)?),
            (("lower", path), TreeSource::Overlay { lowers, .. }) if !path.is_empty() => {
                lowers.push(resolve(cwd, Path::new(path))?);
            }
            (("upper", what), TreeSource::Overlay { upper: known, .. })
                if known.is_none() && !what.is_empty() =>
            {
                *known = Some(upper(cwd, what)?);
            }
            _ => return Err(wrong()),
        }
    }
    if matches!(&source, TreeSource::Overlay { lowers, .. } if lowers.is_empty()) {
        return Err(wrong());
    }
    Ok(ExtraMount {
        place: resolve(cwd, Path::new(dir))?,
        source,
        read_only,
    })
}

#[cfg(test)]
mod tests {
    use super::{absolute, extra_mount, upper};
    use crate::plan::{TreeSource, Upper};
    use std::path::Path;

    #[test]
    fn paths_are_taken_from_the_working_directory() {
        let at = |path: &str| absolute(Path::new("/home/u"), Path::new(path));
        assert_eq!(at("./a//b/").unwrap().path(), Path::new("/home/u/a/b"));
        assert_eq!(at("/x").unwrap().path(), Path::new("/x"));
        assert!(at("../v").is_err());
    }

    #[test]
    fn patterns_with_a_slash_begin_in_their_directory() {
        let dir = std::env::temp_dir().join(format!("openpath-[p]-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("real")).unwrap();
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        let dir = dir.canonicalize().unwrap();
        let whole = dir.display().to_string().replace('[', "\\[");
        let at = |text: &str| super::pattern(&dir, text).unwrap();
        assert_eq!(at("*.pem"), "*.pem");
        assert_eq!(at("./*.pem"), format!("{whole}/*.pem"));
        assert_eq!(at("**/x/{a,b/c}"), format!("{whole}/**/x/{{a,b/c}}"));
        assert_eq!(at("link/*/x"), format!("{whole}/real/*/x"));
        assert_eq!(at("none/*/x"), format!("{whole}/none/*/x"));
        assert_eq!(at("link/none/*"), format!("{whole}/real/none/*"));
        assert_eq!(at("/etc/*"), "/etc/*");
        assert_eq!(at(&at("link/*/x")), at("real/*/x"));
        for wrong in ["a/../b", "a/", "", "{k,z.pem", "~/x"] {
            assert!(super::pattern(&dir, wrong).is_err(), "{wrong}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn link_is_hidden_with_its_target() {
        let dir = std::env::temp_dir().join(format!("openpath-spec-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("real")).unwrap();
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        let dir = dir.canonicalize().unwrap();
        let hidden = |path: &str| super::hidden_names(&dir, Path::new(path)).unwrap();
        let at = |name: &str| dir.join(name).as_path().into();
        assert_eq!(hidden("link"), [at("link"), at("real")]);
        assert_eq!(hidden("real/"), [at("real")]);
        assert_eq!(hidden("none"), [at("none")]);
        assert_eq!(hidden("link/none"), [at("real/none")]);
        assert_eq!(hidden("link/../none/x"), [at("none/x")]);
        assert!(super::resolve(&dir, Path::new("link/x/../y")).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn extra_mounts_are_parsed_by_kind_and_options() {
        let cwd = Path::new("/w");
        assert_eq!(upper(cwd, "memory").unwrap(), Upper::Memory { size: None });
        let none = Upper::Memory { size: Some(0) };
        assert_eq!(upper(cwd, "memory:0").unwrap(), none);
        for wrong in [
            "memory:",
            "memory:x",
            "memroy:1M",
            "Memory:1M",
            ":1M",
            "mem:a/b",
        ] {
            assert!(upper(cwd, wrong).is_err(), "{wrong}");
        }
        assert!(
            matches!(upper(cwd, "./mem:1M").unwrap(), Upper::Directory(path)
            if path.path() == Path::new("/w/mem:1M"))
        );
        assert!(matches!(upper(cwd, "up").unwrap(), Upper::Directory(path)
            if path.path() == Path::new("/w/up")));
        let mem = extra_mount(cwd, "/m=mem,size=1M,ro").unwrap();
        assert_eq!(
            mem.source,
            TreeSource::Memory {
                size: Some(1 << 20)
            }
        );
        assert!(mem.read_only && mem.place.path() == Path::new("/m"));
        assert!(
            matches!(extra_mount(cwd, "d=host:x").unwrap().source, TreeSource::Host(path)
            if path.path() == Path::new("/w/x"))
        );
        let stack = extra_mount(cwd, "/m=overlay,lower=a,lower=/b,upper=memory:1M").unwrap();
        assert_eq!(
            stack.source,
            TreeSource::Overlay {
                lowers: [Path::new("/w/a"), Path::new("/b")]
                    .map(Into::into)
                    .to_vec(),
                upper: Some(Upper::Memory {
                    size: Some(1 << 20)
                }),
            }
        );
        for wrong in [
            "/m=overlay",
            "/m=overlay,upper=memory",
            "/m=overlay,lower=",
            "/m=overlay,lower=/a,upper=/b,upper=/c",
            "/m=overlay,lower=/a,upper=memroy:1M",
            "/m=mem,lower=/a",
            "/m",
            "/m=disk",
            "/m=mem:x",
            "/m=host:",
            "/m=host:/x,size=1",
            "/m=mem,rw",
        ] {
            assert!(extra_mount(cwd, wrong).is_err(), "{wrong}");
        }
    }
}
