// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches compiled modules in a directory, so that each engine compiles a module once.
//!
//! # Format
//! A file `KEY_LEN.cwasm` per module. The key is the SHA-256 of everything that the engine's code
//! depends on and of the module's bytes. The file holds a word that names the format, the SHA-256
//! of the code, and the code.
//!
//! # Rules
//! R1. A file is trusted if it and the directory belong to this user, nobody else may write either,
//!     no link leads to them, and its checksum is right. The checksum is taken of the bytes that
//!     are used. All directories above belong to this user or root, and nobody else can replace one
//!     of them. A file that is not trusted is compiled again and overwritten.
//! R2. A file is written under a temporary name and renamed, so that a reader sees all of it or
//!     nothing.
//! R3. The directory is bounded (`BYTES_MAX`, `FILES_MAX`): the least recently used module is
//!     removed first, and files that are not named like a module stay. A module longer than the
//!     bound is not cached.
//! R4. A module that cannot be cached runs all the same.
//!
//! # Trust
//! Anybody with write access as this user can run any code as this user already. A guest cannot:
//! its host must not let it change the directory.

mod private_dir;

use crate::sys;
use private_dir::PrivateDir;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::path::Path;
use wasmtime::{Engine, Module};

/// The most bytes of all files together.
const BYTES_MAX: u64 = 1 << 30;
/// The most files.
const FILES_MAX: usize = 256;

/// Names the format, its version in the last byte.
const FORMAT: &[u8; 8] = b"opcwasm1";
/// Bytes of a checksum.
const SUM: usize = 32;

/// A directory of compiled modules. See the module head.
#[derive(Debug)]
pub struct Cache {
    dir: PrivateDir,
}

impl Cache {
    /// Opens the cache in a directory, which is created if it is missing.
    ///
    /// # Errors
    /// `PermissionDenied`: the directory is not this user's alone, or one above it belongs to
    /// neither this user nor root. `NotADirectory`: a link leads to it. Errors of the file system.
    pub fn open(dir: &Path) -> io::Result<Cache> {
        let dir = PrivateDir::open(dir)?;
        Ok(Cache { dir })
    }

    /// Returns the module of these bytes from the cache, or compiles it and caches it.
    ///
    /// # Errors
    /// Errors of the compiler.
    pub fn module(&self, engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Module> {
        let name = name(engine, wasm);
        if let Some(module) = self.find(engine, &name) {
            return Ok(module);
        }
        let module = Module::new(engine, wasm)?;
        let kept = module.serialize().and_then(|code| {
            let sum = Sha256::digest(&code);
            let parts = [FORMAT, &sum[..], &code];
            let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
            if bytes > BYTES_MAX {
                return Err(wasmtime::Error::msg("it is longer than the bound"));
            }
            self.dir.write(&name, &parts)?;
            self.dir.evict(BYTES_MAX, FILES_MAX)?;
            Ok(())
        });
        if let Err(why) = kept {
            tracing::debug!(%why, "a compiled module was not cached");
        }
        Ok(module)
    }

    /// The cached module of this name, if it is trusted.
    fn find(&self, engine: &Engine, name: &str) -> Option<Module> {
        let found = self.dir.read(name, BYTES_MAX);
        let bytes = match found {
            Ok(bytes) => bytes?,
            Err(why) => {
                tracing::debug!(%why, name, "a cached module is not trusted");
                return None;
            }
        };
        let code = verified(&bytes)?;
        match sys::module(engine, code) {
            Ok(module) => Some(module),
            Err(why) => {
                tracing::debug!(%why, name, "a cached module cannot be used");
                None
            }
        }
    }
}

/// The code in a file, if its format and checksum are right.
fn verified(bytes: &[u8]) -> Option<&[u8]> {
    let (sum, code) = bytes.strip_prefix(FORMAT)?.split_at_checked(SUM)?;
    (Sha256::digest(code)[..] == *sum).then_some(code)
}

/// The name of the file that caches a module.
fn name(engine: &Engine, wasm: &[u8]) -> String {
    let mut sum = Sum(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sum);
    // The first hash has a fixed length, so it cannot run into the module's bytes.
    let engine = sum.0.finalize();
    let sum = Sha256::new().chain_update(engine).chain_update(wasm);
    let mut name = String::new();
    for byte in sum.finalize() {
        write!(name, "{byte:02x}").ok();
    }
    name + private_dir::SUFFIX
}

/// A hasher that feeds SHA-256.
struct Sum(Sha256);

impl Hasher for Sum {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let sum = self.0.clone().finalize();
        sum.iter()
            .take(8)
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, name};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use wasmtime::{Config, Engine, Instance, Store};

    /// `(module (func (export "f") (result i32) (i32.const 42)))`
    const WASM: &[u8] = b"\0asm\x01\0\0\0\x01\x05\x01\x60\0\x01\x7f\x03\x02\x01\0\
        \x07\x05\x01\x01f\0\0\x0a\x06\x01\x04\0\x41\x2a\x0b";

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = format!("openpath-cache-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().canonicalize().unwrap().join(dir);
            Scratch(dir)
        }

        fn files(&self) -> Vec<PathBuf> {
            let all = std::fs::read_dir(&self.0).unwrap();
            all.map(|entry| entry.unwrap().path()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    fn run(engine: &Engine, dir: &Path) -> i32 {
        let module = Cache::open(dir).unwrap().module(engine, WASM).unwrap();
        let mut store = Store::new(engine, ());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let f = instance.get_typed_func::<(), i32>(&mut store, "f").unwrap();
        f.call(&mut store, ()).unwrap()
    }

    #[test]
    fn a_module_is_cached_and_used_again() {
        let dir = Scratch::new("used");
        let engine = Engine::default();
        assert_eq!(run(&engine, &dir.0), 42);
        let [file] = &dir.files()[..] else {
            panic!("expected one file");
        };
        assert!(file.ends_with(name(&engine, WASM)));
        let cache = Cache::open(&dir.0).unwrap();
        assert!(cache.find(&engine, &name(&engine, WASM)).is_some());
        assert_eq!(run(&engine, &dir.0), 42);
    }

    #[test]
    fn the_name_depends_on_the_engine_and_the_module() {
        let metered = Engine::new(Config::new().consume_fuel(true)).unwrap();
        let plain = Engine::default();
        assert_ne!(name(&metered, WASM), name(&plain, WASM));
        assert_ne!(name(&plain, WASM), name(&plain, &WASM[..8]));
    }

    #[test]
    fn a_corrupt_file_is_not_trusted_and_is_replaced() {
        let dir = Scratch::new("broken");
        let engine = Engine::default();
        run(&engine, &dir.0);
        let file = dir.files().remove(0);
        let good = std::fs::read(&file).unwrap();
        let cache = Cache::open(&dir.0).unwrap();
        let known = || cache.find(&engine, &name(&engine, WASM)).is_some();
        for at in [0, 7, 8, 39, 40, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&file, &bad).unwrap();
            assert!(!known(), "byte {at}");
            std::fs::write(&file, &good[..at]).unwrap();
            assert!(!known(), "{at} bytes");
        }
        assert_eq!(run(&engine, &dir.0), 42);
        assert!(known());
    }

    #[test]
    fn a_file_that_others_may_write_is_not_trusted() {
        let dir = Scratch::new("others");
        let engine = Engine::default();
        run(&engine, &dir.0);
        let file = dir.files().remove(0);
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let cache = Cache::open(&dir.0).unwrap();
        let known = || cache.find(&engine, &name(&engine, WASM)).is_some();
        assert!(known());
        mode(&file, 0o620);
        assert!(!known());
        mode(&file, 0o600);
        std::fs::rename(&file, dir.0.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
        assert!(!known());
        mode(&dir.0, 0o702);
        assert!(Cache::open(&dir.0).is_err());
        mode(&dir.0, 0o700);
        let link = Scratch(dir.0.with_extension("link"));
        std::os::unix::fs::symlink(&dir.0, &link.0).unwrap();
        assert!(Cache::open(&link.0).is_err());
        std::fs::remove_file(&link.0).unwrap();
    }

    #[test]
    fn the_least_recently_used_module_is_evicted() {
        let dir = Scratch::new("bound");
        let cache = Cache::open(&dir.0).unwrap();
        let name = |n: u64| format!("{n:064x}.cwasm");
        for n in 0..6 {
            cache.dir.write(&name(n), &[&[0; 100]]).unwrap();
            let file = std::fs::File::open(dir.0.join(name(n))).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + n);
            file.set_modified(time).unwrap();
        }
        cache.dir.read(&name(0), 1000).unwrap().unwrap();
        cache.dir.evict(350, 10).unwrap();
        let mut left = dir.files();
        left.sort();
        let left: Vec<_> = left.iter().map(|file| file.file_name().unwrap()).collect();
        assert_eq!(left, [&*name(0), &*name(4), &*name(5)]);
        cache.dir.evict(350, 1).unwrap();
        assert_eq!(dir.files().len(), 1);
    }

    #[test]
    fn files_not_named_like_a_module_stay() {
        let dir = Scratch::new("stays");
        let cache = Cache::open(&dir.0).unwrap();
        let long = format!("{:065x}.cwasm", 0);
        let theirs = ["thesis.txt", "0.cwasm", &long, ".new-idea", ".new-1-0"];
        for name in theirs {
            cache.dir.write(name, &[b"mine"]).unwrap();
        }
        cache.dir.evict(0, 0).unwrap();
        assert_eq!(dir.files().len(), theirs.len());
        // A temporary file of long ago is removed.
        for name in theirs {
            let file = std::fs::File::open(dir.0.join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        cache.dir.evict(u64::MAX, usize::MAX).unwrap();
        assert_eq!(dir.files().len(), theirs.len() - 1);
        assert!(!dir.0.join(".new-1-0").exists());
    }

    #[test]
    fn a_path_that_others_can_change_is_refused() {
        let dir = Scratch::new("way");
        let below = dir.0.join("cache/openpath/modules");
        assert!(
            Cache::open(&below).is_ok(),
            "missing directories are created"
        );
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let above = dir.0.join("cache");
        for bits in [0o770, 0o707] {
            mode(&above, bits);
            assert!(Cache::open(&below).is_err(), "{bits:o}");
        }
        mode(&above, 0o755);
        assert!(Cache::open(&below).is_ok());
        std::fs::rename(&above, dir.0.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &above).unwrap();
        assert!(Cache::open(&below).is_err(), "a link leads to it");
        std::fs::remove_file(&above).unwrap();
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir(&above).unwrap();
            std::os::unix::fs::chown(&above, Some(1000), None).unwrap();
            assert!(
                Cache::open(&below).is_err(),
                "a parent belongs to another user"
            );
            assert!(!above.join("openpath").exists(), "nothing is created in it");
        }
        assert!(Cache::open(&dir.0.join("a/../b")).is_err());
    }
}
