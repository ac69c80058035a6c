// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the built-in devices answer as the running kernel's, that random bytes come from the
//! host's entropy, and that drivers which the host registers have positions and errors of their
//! own.

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::poll::*;
use openpath_abi::{Errno, mode, stat};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{
    DeviceKind, DeviceOps, Entropy, FileOps, Io, MountFlags, Opening, Task, Vfs, VfsBuilder,
};
use std::any::Any;
use std::fs::OpenOptions;
use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::sync::{Arc, Mutex};

const RNDGETENTCNT: u32 = 0x8004_5200;
const RNDRESEEDCRNG: u32 = 0x5207;

fn built(builder: VfsBuilder) -> (Vfs, Task) {
    let vfs = builder
        .build(MemFs::new(MemOptions::default()))
        .expect("a world");
    let task = root(&vfs);
    for (name, minor) in [
        ("/null", 3),
        ("/zero", 5),
        ("/full", 7),
        ("/random", 8),
        ("/urandom", 9),
    ] {
        task.node(name, mode::S_IFCHR | 0o666, stat::makedev(1, minor));
    }
    (vfs, task)
}

fn told<T>(result: std::io::Result<T>) -> Result<T, Errno> {
    result.map_err(|e| Errno::from_raw(e.raw_os_error().expect("an errno")))
}

#[test]
fn each_built_in_device_answers_as_the_kernels() {
    let (_vfs, task) = built(Vfs::builder());
    for name in ["null", "zero", "full", "random", "urandom"] {
        let path = format!("/dev/{name}");
        let kind = std::fs::metadata(&path).map(|m| m.file_type());
        assert!(
            kind.is_ok_and(|t| t.is_char_device()),
            "{path}: cannot open the kernel's device"
        );
        let open = OpenOptions::new().read(true).write(true).open(&path);
        let mut host = open.expect("the kernel's");
        let fd = task.get(&format!("/{name}"), "RW");
        let random = name.ends_with("random");
        for len in [0, 1, 10, 5000, 100_000] {
            let (mut theirs, mut ours) = (vec![9; len], vec![9; len]);
            let read = (told(host.read(&mut theirs)), task.read(fd, &mut ours));
            assert_eq!(read.0, read.1, "{name} {len}");
            assert!(random || theirs == ours, "{name} {len}");
            let at = (
                told(host.read_at(&mut theirs, 77)),
                task.pread(fd, &mut ours, 77),
            );
            assert_eq!(at.0, at.1, "{name} {len}");
            assert_eq!(
                told(host.write(&theirs)),
                task.write(fd, &theirs),
                "{name} {len}"
            );
            let at = (
                told(host.write_at(&theirs, 77)),
                task.pwrite(fd, &theirs, 77),
            );
            assert_eq!(at.0, at.1, "{name} {len}");
        }
        let pieces = [IoSlice::new(b""), IoSlice::new(b"ab"), IoSlice::new(b"c")];
        assert_eq!(told(host.write_vectored(&pieces)), task.writev(fd, &pieces));
        assert_eq!(
            told(host.write_vectored(&pieces[..1])),
            task.writev(fd, &pieces[..1])
        );
        for (to, whence) in [(5, SEEK_SET), (5, SEEK_CUR), (5, SEEK_END)] {
            let from = match whence {
                SEEK_SET => SeekFrom::Start(5),
                SEEK_CUR => SeekFrom::Current(5),
                _ => SeekFrom::End(5),
            };
            let at = told(host.seek(from)).map(u64::cast_signed);
            assert_eq!(at, task.lseek(fd, to, whence), "{name}");
        }
        assert_eq!(told(host.set_len(0)), task.ftruncate(fd, 0), "{name}");
        assert_eq!(told(host.sync_all()), task.fsync(fd), "{name}");
        assert_eq!(task.fallocate(fd, 0, 0, 1), Err(Errno::ENODEV));
        let both = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
        let ready = if name == "random" {
            POLLIN | POLLRDNORM
        } else {
            both
        };
        assert_eq!(task.poll(fd, 0x3ff), ready);
        let unknown = if random { Errno::EINVAL } else { Errno::ENOTTY };
        assert_eq!(task.ioctl(fd, 0x5299, &mut [0; 8]), Err(unknown));
    }
}

#[test]
fn random_bytes_come_from_the_hosts_entropy() {
    #[derive(Default)]
    struct Counter(Mutex<(u8, Vec<u8>)>);
    impl Entropy for Counter {
        fn fill(&self, buf: &mut [u8]) -> Result<(), Errno> {
            let mut last = self.0.lock().expect("a lock");
            for byte in buf {
                last.0 += 1;
                *byte = last.0;
            }
            Ok(())
        }
        fn stir(&self, data: &[u8]) {
            self.0.lock().expect("a lock").1.extend_from_slice(data);
        }
    }
    let counter = Arc::new(Counter::default());
    let (_vfs, task) = built(Vfs::builder().entropy(Arc::clone(&counter) as Arc<dyn Entropy>));
    let (random, urandom) = (task.get("/random", "RW"), task.get("/urandom", "RD"));
    let mut buf = [0; 3];
    assert_eq!((task.read(random, &mut buf), buf), (Ok(3), [1, 2, 3]));
    assert_eq!((task.read(urandom, &mut buf), buf), (Ok(3), [4, 5, 6]));
    assert_eq!(task.write(random, b"salt"), Ok(4));
    assert_eq!(counter.0.lock().expect("a lock").1, b"salt");
    let mut arg = [0; 4];
    assert_eq!(task.ioctl(random, RNDGETENTCNT, &mut arg), Ok(0));
    assert_eq!(i32::from_ne_bytes(arg), 256);
    // The host keeps the entropy pool. Divergence: L16
    assert_eq!(
        task.ioctl(random, RNDRESEEDCRNG, &mut arg),
        Err(Errno::EINVAL)
    );
}

/// A disk of 8 bytes for each minor number, with every kind of error.
struct Disk;

struct Opened(Mutex<[u8; 8]>);

impl DeviceOps for Disk {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn FileOps>, Errno> {
        match opening.minor {
            0 => Ok(Box::new(Opened(Mutex::new([opening.major as u8; 8])))),
            1 => panic!("planted"),
            2 if opening.wait.is_none() => Err(Errno::EBUSY),
            3 if opening.cred.euid != 0 => Err(Errno::EACCES),
            _ => Err(Errno::ENODEV),
        }
    }
}

impl FileOps for Opened {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn read(&self, buf: &mut [u8], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        let disk = self.0.lock().expect("a lock");
        let rest = disk.get(io.offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Some(Ok(len))
    }
    fn write(&self, data: &[u8], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        let mut disk = self.0.lock().expect("a lock");
        let room = disk.get_mut(io.offset as usize..).unwrap_or_default();
        let len = room.len().min(data.len());
        room[..len].copy_from_slice(&data[..len]);
        Some(if len == 0 {
            Err(Errno::ENOSPC)
        } else {
            Ok(len)
        })
    }
    fn moves(&self) -> bool {
        true
    }
    fn seek(&self, at: i64, offset: i64, whence: u32) -> Option<Result<i64, Errno>> {
        let from = match whence {
            SEEK_SET => 0,
            SEEK_CUR => at,
            SEEK_END => 8,
            _ => return Some(Err(Errno::EINVAL)),
        };
        Some(Ok(from + offset))
    }
}

#[test]
fn a_driver_of_the_host_has_positions_and_errors_of_its_own() {
    let drivers = Vfs::builder()
        .device(DeviceKind::Block, 8, 0..=15, Arc::new(Disk))
        .device(DeviceKind::Char, 1, 7..=7, Arc::new(Disk));
    let (vfs, task) = built(drivers);
    let node =
        |name: &str, kind: u32, minor| task.node(name, kind | 0o666, stat::makedev(8, minor));
    for minor in 0..5 {
        node(&format!("/b{minor}"), mode::S_IFBLK, minor);
    }
    node("/c0", mode::S_IFCHR, 0);
    node("/b16", mode::S_IFBLK, 16);
    task.node("/misc", mode::S_IFCHR | 0o666, stat::makedev(10, 251));
    task.node("/b10", mode::S_IFBLK | 0o666, stat::makedev(10, 251));
    let open = |path: &str, flags| task.open(path.as_bytes(), flags, 0).map(drop);
    assert_eq!(
        open("/c0", O_RDWR),
        Err(Errno::ENXIO),
        "a block driver serves no character device"
    );
    assert_eq!(
        open("/b16", O_RDWR),
        Err(Errno::ENXIO),
        "no driver has this number"
    );
    assert_eq!(open("/misc", O_RDWR), Err(Errno::ENODEV), "miscellaneous");
    assert_eq!(
        open("/b10", O_RDWR),
        Err(Errno::ENXIO),
        "there is no block driver"
    );
    assert_eq!(open("/b1", O_RDWR), Err(Errno::EIO));
    assert_eq!(open("/b2", O_RDWR | O_NONBLOCK), Err(Errno::EBUSY));
    assert_eq!(open("/b2", O_RDWR), Err(Errno::ENODEV));
    let one = user(&vfs, 1000, &[], &[]);
    assert_eq!(one.open(b"/b3", O_RDONLY, 0), Err(Errno::EACCES));
    assert_eq!(
        open("/full", O_RDWR),
        Err(Errno::ENODEV),
        "the driver that was given last serves it"
    );
    let fd = task.get("/b0", "RW");
    assert_eq!(task.write(fd, b"abc"), Ok(3));
    let mut buf = [0; 8];
    assert_eq!((task.read(fd, &mut buf), &buf[..5]), (Ok(5), &[8; 5][..]));
    assert_eq!(
        (task.read(fd, &mut buf), task.write(fd, b"a")),
        (Ok(0), Err(Errno::ENOSPC))
    );
    assert_eq!(task.lseek(fd, -6, SEEK_END), Ok(2));
    assert_eq!(
        (task.read(fd, &mut buf[..2]), &buf[..2]),
        (Ok(2), &b"c\x08"[..])
    );
    assert_eq!(task.lseek(fd, 0, SEEK_CUR), Ok(4));
    assert_eq!(task.lseek(fd, -5, SEEK_CUR), Err(Errno::EINVAL));
    assert_eq!(
        (task.pread(fd, &mut buf, 0), &buf[..3]),
        (Ok(8), &b"abc"[..])
    );
    task.dir("/m", 0o755, (0, 0));
    task.bind(b"/", b"/m").expect("bind");
    task.remount_bind(b"/m", MountFlags::NO_DEV)
        .expect("remount");
    assert_eq!(open("/m/b0", O_RDWR), Err(Errno::EACCES));
}
