// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts a small tree in memory and walks it as two guests: one with its own root, one confined to
//! a directory.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY};
use openpath_abi::resolve::{RESOLVE_BENEATH, RESOLVE_CACHED};
use openpath_abi::{Errno, OpenHow};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, Vfs};

fn main() -> Result<(), Errno> {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
    let host = vfs.task(Cred::root())?;
    furnish(&host)?;
    println!("the host's tree:");
    list(&host, b"/", 1)?;

    let guest = host.fork()?;
    guest.chroot(b"/srv/guest")?;
    guest.chdir(b"/")?;
    guest.set_cred(Cred::user(1000, 1000, &[]));
    println!("\na guest in /srv/guest, as user 1000:");
    read(&guest, b"/etc/motd");
    read(&guest, b"/../../../etc/motd");
    read(&guest, b"latest/../motd");
    read(&guest, b"/etc/secret");

    println!("\na guest that may not leave its directory (RESOLVE_BENEATH):");
    let base = host.open(b"/srv/guest", O_RDONLY | O_DIRECTORY, 0)?;
    for path in ["etc/motd", "../../etc/motd", "escape", "etc/./../etc/motd"] {
        let how = OpenHow {
            flags: u64::from(O_RDONLY),
            mode: 0,
            resolve: RESOLVE_BENEATH,
        };
        let result = host.openat2(base, path.as_bytes(), &how);
        println!("  openat2({path:?}) = {}", shown(result.map(|_| ())));
    }

    println!("\nwhat is known without asking anyone (RESOLVE_CACHED):");
    for path in ["/srv/guest/etc/motd", "/srv/guest/nobody/asked"] {
        let how = OpenHow {
            flags: u64::from(O_RDONLY),
            mode: 0,
            resolve: RESOLVE_CACHED,
        };
        let result = host.openat2(AT_FDCWD, path.as_bytes(), &how);
        println!("  openat2({path:?}) = {}", shown(result.map(|_| ())));
    }
    println!("\n{:?}", vfs.usage());
    Ok(())
}

/// Makes some directories, files and links.
fn furnish(host: &Task) -> Result<(), Errno> {
    for dir in [
        "/etc",
        "/srv",
        "/srv/guest",
        "/srv/guest/etc",
        "/srv/guest/v1",
    ] {
        host.mkdirat(AT_FDCWD, dir.as_bytes(), 0o755)?;
    }
    for (path, text, mode) in [
        ("/etc/motd", "the host's own\n", 0o644),
        ("/srv/guest/etc/motd", "welcome, guest\n", 0o644),
        ("/srv/guest/motd", "beside v1\n", 0o644),
        ("/srv/guest/etc/secret", "not for guests\n", 0o600),
    ] {
        let file = host.open(path.as_bytes(), O_CREAT | O_WRONLY, mode)?;
        host.write(file, text.as_bytes())?;
        host.close(file)?;
    }
    host.symlinkat(b"v1", AT_FDCWD, b"/srv/guest/latest")?;
    host.symlinkat(b"/etc/motd", AT_FDCWD, b"/srv/guest/escape")
}

/// Prints the tree below `dir`.
fn list(task: &Task, dir: &[u8], depth: usize) -> Result<(), Errno> {
    let open = task.open(dir, O_RDONLY | O_DIRECTORY, 0)?;
    let mut entries = task.getdents64(open, 1 << 16)?;
    task.close(open)?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
        let mut path = dir.to_vec();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(&entry.name);
        let stat = task.lstat(&path)?;
        let name = String::from_utf8_lossy(&entry.name);
        println!(
            "{:indent$}{name}  {:o} {} bytes",
            "",
            stat.mode,
            stat.size,
            indent = 2 * depth
        );
        if stat.mode & 0o170_000 == 0o040_000 {
            list(task, &path, depth + 1)?;
        }
    }
    Ok(())
}

/// Opens, reads and prints a file, or prints the error.
fn read(task: &Task, path: &[u8]) {
    let text = task.open(path, O_RDONLY, 0).and_then(|file| {
        let mut buf = [0u8; 64];
        let n = task.read(file, &mut buf)?;
        task.close(file)?;
        Ok(String::from_utf8_lossy(&buf[..n]).trim_end().to_owned())
    });
    println!("  {:24} {}", String::from_utf8_lossy(path), shown(text));
}

fn shown<T: std::fmt::Debug>(result: Result<T, Errno>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(errno) => errno.to_string(),
    }
}
