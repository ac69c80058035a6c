// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a component reads, writes and lists the files of its guest, by a whole program and
//! call by call, and that no path leads out of its directory. Cached calls are ready at once, and a
//! worker makes the others.
#![cfg(feature = "component")]

use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_WRONLY};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Cred, Task, Vfs};
use openpath_wasi::component::bindings::wasi::filesystem::preopens::Host as _;
use openpath_wasi::component::bindings::wasi::filesystem::types::{
    DescriptorFlags, ErrorCode, HostDescriptor, HostDirectoryEntryStream as _, OpenFlags, PathFlags,
};
use openpath_wasi::component::{self, Access, Descriptor, Error, Files, FilesCtx, FilesView};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasmtime::component::{Component, Linker, Resource, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_io::bytes::Bytes;

struct Guest {
    files: Files,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl FilesView for Guest {
    fn files(&mut self) -> FilesCtx<'_> {
        FilesCtx {
            files: &mut self.files,
            table: &mut self.table,
        }
    }
}

/// A tree in memory with "greeting" in "/home" and "secret" beside it.
fn memory() -> Task {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    let task = vfs.expect("a tree").task(Cred::root()).expect("a task");
    task.mkdir(b"/home", 0o755).expect("a directory");
    for (path, text) in [(&b"/home/greeting"[..], &b"hello"[..]), (b"/secret", b"no")] {
        let fd = task.open(path, O_CREAT | O_WRONLY, 0o644).expect("a file");
        task.write(fd, text).expect("written");
        task.close(fd).expect("closed");
    }
    task
}

fn guest(task: Task, path: &[u8], access: Access) -> Guest {
    let pool = Pool::new(PoolOptions::default());
    let mut files = Files::new(task, &pool).expect("files");
    files.preopen("/", path, access).expect("a directory");
    Guest {
        files,
        wasi: WasiCtx::builder().build(),
        table: ResourceTable::new(),
    }
}

impl Guest {
    async fn root(&mut self) -> u32 {
        let given = self.files().get_directories().await.expect("directories");
        given[0].0.rep()
    }

    async fn open(&mut self, dir: u32, path: &str, how: OpenFlags) -> Result<u32, Error> {
        let flags = if how.contains(OpenFlags::CREATE) {
            DescriptorFlags::READ | DescriptorFlags::WRITE
        } else {
            DescriptorFlags::READ
        };
        let follow = PathFlags::SYMLINK_FOLLOW;
        let mut files = self.files();
        let opened = files.open_at(lent(dir), follow, path.to_owned(), how, flags);
        Ok(opened.await?.rep())
    }

    async fn drop(&mut self, fd: u32) {
        let mut files = self.files();
        let dropped = HostDescriptor::drop(&mut files, Resource::new_own(fd));
        dropped.await.expect("a handle");
    }
}

fn lent(rep: u32) -> Resource<Descriptor> {
    Resource::new_borrow(rep)
}

/// The code of a failed call.
fn code<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    match result {
        Err(Error::Code(code)) => Some(code),
        _ => None,
    }
}

/// The result of a future that is ready at its first poll.
fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn read_all(task: &Task, path: &[u8]) -> Vec<u8> {
    let fd = task.open(path, O_RDONLY, 0).expect("a file");
    let mut data = vec![0; 1 << 16];
    let len = task.read(fd, &mut data).expect("read");
    task.close(fd).expect("closed");
    data.truncate(len);
    data
}

#[tokio::test]
async fn a_component_reads_and_writes_by_streams() {
    let engine = Engine::default();
    let mut linker = Linker::<Guest>::new(&engine);
    component::add_all_to_linker(&mut linker).expect("all interfaces");
    let text = include_str!("guest.wat");
    let component = Component::new(&engine, text).expect("a component");
    let mut store = Store::new(&engine, guest(memory(), b"/home", Access::ReadWrite));
    let instance = linker.instantiate_async(&mut store, &component).await;
    let instance = instance.expect("cannot instantiate");
    let run = instance.get_typed_func::<(), (i32,)>(&mut store, "run");
    let (read,) = run
        .expect("it has one")
        .call_async(&mut store, ())
        .await
        .expect("no trap");
    assert_eq!(read, 5);
    let task = store.data().files.task();
    assert_eq!(read_all(task, b"/home/copy"), b"hello");
    assert_eq!(
        task.descriptors().len(),
        1,
        "only the preopened directory is open"
    );
}

#[test]
fn a_cached_answer_is_ready_at_the_first_poll() {
    let mut guest = guest(memory(), b"/home", Access::ReadOnly);
    let root = at_once(guest.root()).expect("not ready at once");
    let none = OpenFlags::empty();
    for _ in 0..3 {
        let fd = at_once(guest.open(root, "greeting", none)).expect("not ready at once");
        let fd = fd.expect("opened");
        let stat = at_once(guest.files().stat(lent(fd))).expect("not ready at once");
        assert_eq!(stat.expect("a file").size, 5);
        let read = at_once(guest.files().read(lent(fd), 100, 1)).expect("not ready at once");
        assert_eq!(read.expect("read"), (b"ello".to_vec(), false));
        at_once(guest.drop(fd)).expect("not ready at once");
        let missed = at_once(guest.open(root, "none", none)).expect("not ready at once");
        assert_eq!(code(missed), Some(ErrorCode::NoEntry));
    }
}

#[tokio::test]
async fn a_worker_makes_calls_that_would_wait() {
    let dir = std::env::temp_dir().join(format!("openpath-wasi-cold-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("d")).expect("a directory");
    std::fs::write(dir.join("d/file"), "from the host").expect("a file");
    let options = HostOptions::default().policy(Policy::Exclusive);
    let tree = HostFs::open(&dir, options).expect("a tree");
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let mut guest = guest(task, b"/", Access::ReadWrite);
    let root = guest.root().await;
    let none = OpenFlags::empty();
    let fd = guest.open(root, "d/file", none).await.expect("opened");
    let warm = at_once(guest.open(root, "d/file", none)).expect("cached");
    assert!(warm.is_ok());
    {
        let mut files = guest.files();
        let mut reading = pin!(files.read(lent(fd), 4, 0));
        let first = reading
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending(), "the call waited for the disk in place");
        assert_eq!(reading.await.expect("read"), (b"from".to_vec(), false));
    }
    for in_place in [false, true] {
        guest.files.set_in_place(in_place);
        let mut files = guest.files();
        let mut making = pin!(files.create_directory_at(lent(root), format!("{in_place}")));
        let first = making
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(first.is_pending(), !in_place);
        if let Poll::Ready(made) = first {
            made.expect("made");
        } else {
            making.await.expect("made");
        }
    }

    // Its data is not cached here, so a stream of it waits for a worker.
    let stream = guest.files().read_via_stream(lent(fd), 5).await;
    let mut stream = guest.table.delete(stream.expect("a stream")).expect("it");
    let data = stream.blocking_read(100).await.expect("data");
    assert_eq!(data, Bytes::from_static(b"the host"));
    std::fs::remove_dir_all(&dir).expect("gone");
}

#[tokio::test]
async fn a_completed_read_that_is_not_taken_blocks_no_other_stream() {
    let dir = std::env::temp_dir().join(format!("openpath-wasi-many-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("file"), "data").expect("a file");
    let tree = HostFs::open(&dir, HostOptions::default()).expect("a tree");
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let mut guest = guest(task, b"/", Access::ReadWrite);
    let root = guest.root().await;
    let fd = guest.open(root, "file", OpenFlags::CREATE).await;
    let fd = fd.expect("opened");
    // More than there are slots, and the data of each needs a wait.
    let mut streams = Vec::new();
    while streams.len() < 24 {
        let stream = guest.files().read_via_stream(lent(fd), 0).await;
        let mut stream = guest.table.delete(stream.expect("a stream")).expect("it");
        if stream.read(4).expect("begun").is_empty() {
            streams.push(stream);
        }
    }
    let last = guest.files().read_via_stream(lent(fd), 0).await;
    let mut last = guest.table.delete(last.expect("a stream")).expect("it");
    let data = last.blocking_read(4).await.expect("no slot became free");
    assert_eq!(data, Bytes::from_static(b"data"));
    let output = guest.files().write_via_stream(lent(fd), 0).await;
    let mut output = guest.table.delete(output.expect("a stream")).expect("it");
    output.write(Bytes::from_static(b"DATA")).expect("taken");
    output.cancel().await;
    assert_eq!(std::fs::read(dir.join("file")).expect("it"), b"DATA");
    // Completed reads are still there, and streams without a slot get one now.
    for stream in &mut streams {
        let data = stream.blocking_read(4).await.expect("data");
        assert!(data.eq_ignore_ascii_case(b"data"), "{data:?}");
    }
    drop((streams, last, output));
    guest.drop(fd).await;
    assert_eq!(guest.files.task().descriptors().len(), 1);
    std::fs::remove_dir_all(&dir).expect("gone");
}

#[tokio::test]
async fn no_path_leads_out_of_a_preopened_directory() {
    let task = memory();
    task.symlink(b"../secret", b"/home/up").expect("a link");
    task.symlink(b"/secret", b"/home/far").expect("a link");
    task.mkdir(b"/home/d", 0o755).expect("a directory");
    task.symlink(b"../..", b"/home/d/top").expect("a link");
    let mut guest = guest(task, b"/home", Access::ReadWrite);
    let root = guest.root().await;
    let out = [
        "../secret",
        "/secret",
        "up",
        "far",
        "d/top/secret",
        "d/../../secret",
        "..",
        "/",
        "d/top",
        "d/top/",
    ];
    let follow = PathFlags::SYMLINK_FOLLOW;
    for path in out {
        let path = || path.to_owned();
        let opened = guest.open(root, &path(), OpenFlags::empty()).await;
        let mut codes = vec![code(opened)];
        let mut files = guest.files();
        codes.push(code(files.stat_at(lent(root), follow, path()).await));
        codes.push(code(
            files.metadata_hash_at(lent(root), follow, path()).await,
        ));
        assert_eq!(codes, [Some(ErrorCode::NotPermitted); 3], "{}", path());
    }
    let outside = ["../new", "/new", "d/top/new", "d/../../new"];
    for path in outside {
        let path = || path.to_owned();
        let mut files = guest.files();
        let dir = || lent(root);
        let here = || "greeting".to_owned();
        let codes = [
            code(files.create_directory_at(dir(), path()).await),
            code(files.remove_directory_at(dir(), path()).await),
            code(files.unlink_file_at(dir(), path()).await),
            code(files.symlink_at(dir(), here(), path()).await),
            code(files.readlink_at(dir(), path()).await),
            code(files.rename_at(dir(), here(), dir(), path()).await),
            code(files.rename_at(dir(), path(), dir(), here()).await),
            code(
                files
                    .link_at(dir(), PathFlags::empty(), here(), dir(), path())
                    .await,
            ),
            code(
                files
                    .link_at(dir(), PathFlags::empty(), path(), dir(), here())
                    .await,
            ),
        ];
        assert_eq!(codes, [Some(ErrorCode::NotPermitted); 9], "{}", path());
    }
    let names = guest.files.task();
    assert_eq!(read_all(names, b"/secret"), b"no");
    assert!(names.stat(b"/new").is_err());
}

#[tokio::test]
async fn a_read_only_guest_changes_nothing() {
    let mut guest = guest(memory(), b"/home", Access::ReadOnly);
    let root = guest.root().await;
    let create = guest.open(root, "new", OpenFlags::CREATE).await;
    let fd = guest.open(root, "greeting", OpenFlags::empty()).await;
    let fd = fd.expect("a read-only open failed");
    let mut files = guest.files();
    let path = || "greeting".to_owned();
    let dir = || lent(root);
    let codes = [
        code(create),
        code(files.create_directory_at(dir(), path()).await),
        code(files.unlink_file_at(dir(), path()).await),
        code(files.rename_at(dir(), path(), dir(), path()).await),
        code(files.set_size(lent(fd), 0).await),
        code(files.write(lent(fd), vec![0], 0).await),
        code(files.write_via_stream(lent(fd), 0).await),
        code(files.append_via_stream(lent(fd)).await),
    ];
    assert_eq!(codes, [Some(ErrorCode::NotPermitted); 8]);
    assert_eq!(read_all(guest.files.task(), b"/home/greeting"), b"hello");
}

#[tokio::test]
async fn a_large_directory_is_listed_in_pieces() {
    let task = memory();
    for n in 0..3_000 {
        let path = format!("/home/file-with-a-longer-name-{n}");
        let fd = task.open(path.as_bytes(), O_CREAT | O_WRONLY, 0o644);
        task.close(fd.expect("a file")).expect("closed");
    }
    let mut guest = guest(task, b"/home", Access::ReadOnly);
    let root = guest.root().await;
    let listing = guest.files().read_directory(lent(root)).await;
    let listing = listing.expect("a listing").rep();
    let mut count = 0;
    while let Some(entry) = {
        let next = guest
            .files()
            .read_directory_entry(Resource::new_borrow(listing))
            .await;
        next.expect("the listing failed")
    } {
        assert!(entry.name != "." && entry.name != "..");
        count += 1;
    }
    assert_eq!(count, 3_001);
}

#[tokio::test]
async fn a_stream_outlives_its_descriptor_and_closes_the_file() {
    let mut guest = guest(memory(), b"/home", Access::ReadWrite);
    let root = guest.root().await;
    let fd = guest
        .open(root, "log", OpenFlags::CREATE)
        .await
        .expect("a file");
    let stream = guest
        .files()
        .append_via_stream(lent(fd))
        .await
        .expect("a stream");
    let mut stream = guest.table.delete(stream).expect("it");
    guest.drop(fd).await;
    assert_eq!(guest.files.task().descriptors().len(), 2);
    for piece in [&b"one "[..], b"two"] {
        assert!(stream.check_write().expect("room") >= piece.len());
        stream.write(Bytes::from_static(piece)).expect("taken");
    }
    stream.cancel().await;
    drop(stream);
    assert_eq!(guest.files.task().descriptors().len(), 1);
    assert_eq!(read_all(guest.files.task(), b"/home/log"), b"one two");
}
