// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that calls of a component that are dropped before they begin, while a worker makes them,
//! or when they are done leave no descriptor or open file behind, and lose no entry of a listing.
#![cfg(feature = "component")]

use openpath_abi::fcntl::{O_CREAT, O_WRONLY};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Cred, Limits, SuperBlock, Vfs};
use openpath_wasi::component::bindings::wasi::filesystem::preopens::Host as _;
use openpath_wasi::component::bindings::wasi::filesystem::types::{
    DescriptorFlags, HostDescriptor, HostDirectoryEntryStream, NewTimestamp, OpenFlags, PathFlags,
};
use openpath_wasi::component::{Access, Descriptor, Files, FilesCtx, Listing};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wasmtime::component::{Resource, ResourceTable};

/// The limit of open files: less than the number of dropped calls.
const FILES_MAX: u64 = 40;
const ROUNDS: u64 = 12;

struct Guest {
    files: Files,
    table: ResourceTable,
}

fn lent(rep: u32) -> Resource<Descriptor> {
    Resource::new_borrow(rep)
}

impl Guest {
    fn new(tree: Arc<SuperBlock>) -> Self {
        let limits = Limits::default().files_max(FILES_MAX);
        let vfs = Vfs::builder().limits(limits).build(tree).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        task.mkdir(b"/d", 0o755).expect("a directory");
        for path in [&b"/d/file"[..], b"/d/other"] {
            let fd = task.open(path, O_CREAT | O_WRONLY, 0o644).expect("a file");
            task.write(fd, b"data").expect("written");
            task.close(fd).expect("closed");
        }
        task.symlink(b"file", b"/d/link").expect("a link");
        let pool = Pool::new(PoolOptions::default());
        let mut files = Files::new(task, &pool).expect("files");
        files
            .preopen("/", b"/", Access::ReadWrite)
            .expect("a directory");
        Self {
            files,
            table: ResourceTable::new(),
        }
    }

    fn ctx(&mut self) -> FilesCtx<'_> {
        FilesCtx {
            files: &mut self.files,
            table: &mut self.table,
        }
    }

    fn descriptors(&self) -> usize {
        self.files.task().descriptors().len()
    }
}

/// Polls a call this often, with pauses in which a worker may make it, and drops it.
fn poll<F: Future>(call: F, times: u64, pause: Duration) -> Option<F::Output> {
    let mut call = pin!(call);
    for n in 0..times {
        if n > 0 {
            std::thread::sleep(pause);
        }
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(came) = polled {
            return Some(came);
        }
    }
    // Gives a worker time to finish, or not.
    std::thread::sleep(pause);
    None
}

/// Awaits a call to its end.
fn whole<F: Future>(call: F) -> F::Output {
    let mut call = pin!(call);
    loop {
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(came) = polled {
            return came;
        }
        std::thread::yield_now();
    }
}

fn drops(tree: Arc<SuperBlock>) {
    let mut guest = Guest::new(tree);
    let root = whole(guest.ctx().get_directories()).expect("directories")[0]
        .0
        .rep();
    let (none, plain) = (PathFlags::empty(), DescriptorFlags::READ);
    let text = |path: &str| path.to_owned();
    for round in 0..ROUNDS {
        for pause in [0, 200, 2_000].map(Duration::from_micros) {
            let times = round % 4;
            let new = format!("d/new-{round}-{}", pause.as_micros());
            for (path, how) in [
                ("d/file", OpenFlags::empty()),
                ("d/../d/file", OpenFlags::TRUNCATE),
                (&new[..], OpenFlags::CREATE),
                ("d", OpenFlags::DIRECTORY),
            ] {
                let mut ctx = guest.ctx();
                let opened = ctx.open_at(lent(root), none, text(path), how, plain);
                if let Some(opened) = poll(opened, times, pause) {
                    let rep = opened.expect("opened").rep();
                    assert_eq!(guest.descriptors(), 2);
                    // The drop of its handle is dropped too.
                    let mut ctx = guest.ctx();
                    let gone = HostDescriptor::drop(&mut ctx, Resource::new_own(rep));
                    let _dropped = poll(gone, 1, pause);
                }
                assert_eq!(guest.descriptors(), 1, "open {path}, {times} polls");
            }
            let mut ctx = guest.ctx();
            let listed = ctx.read_directory(lent(root));
            if let Some(listing) = poll(listed, times, pause) {
                let rep = listing.expect("a listing").rep();
                let mut ctx = guest.ctx();
                let next = ctx.read_directory_entry(Resource::<Listing>::new_borrow(rep));
                let _entry = poll(next, times, pause);
                let mut ctx = guest.ctx();
                let gone = HostDirectoryEntryStream::drop(&mut ctx, Resource::new_own(rep));
                let _dropped = poll(gone, 1, pause);
            }
            assert_eq!(guest.descriptors(), 1, "read-directory, {times} polls");
            // Calls on names, which leave nothing open for themselves.
            macro_rules! dropped {
                ($($name:ident($($arg:expr),*);)*) => {$({
                    let mut ctx = guest.ctx();
                    let _came = poll(ctx.$name(lent(root), $($arg),*), times, pause);
                    assert_eq!(guest.descriptors(), 1, "{}, {times} polls", stringify!($name));
                })*};
            }
            let (made, moved) = (format!("{new}-dir"), format!("{new}-moved"));
            dropped! {
                create_directory_at(made.clone());
                stat_at(none, text("d/link"));
                set_times_at(none, text("d/file"), NewTimestamp::Now, NewTimestamp::NoChange);
                readlink_at(text("d/link"));
                metadata_hash_at(none, text("d/file"));
                symlink_at(text("file"), format!("{new}-link"));
                link_at(none, text("d/file"), lent(root), format!("{new}-more"));
                rename_at(made, lent(root), moved.clone());
                remove_directory_at(moved);
                unlink_file_at(new);
            }
        }
    }
    // Workers must have closed everything, or there would be no room.
    let mut held = Vec::new();
    for _ in 0..FILES_MAX - 2 {
        let mut ctx = guest.ctx();
        let opened = ctx.open_at(lent(root), none, text("d/file"), OpenFlags::empty(), plain);
        held.push(whole(opened).expect("no room for another file").rep());
    }
    drop(held);
}

/// Lists a directory, and drops every other call midway.
fn names_despite_drops(guest: &mut Guest, root: u32, times: u64, pause: Duration) -> Vec<String> {
    let mut ctx = guest.ctx();
    let listing = whole(ctx.read_directory(lent(root)));
    let rep = listing.expect("a listing").rep();
    let (mut names, mut is_over) = (Vec::new(), false);
    while !is_over {
        let mut ctx = guest.ctx();
        let next = ctx.read_directory_entry(Resource::<Listing>::new_borrow(rep));
        let dropped = poll(next, times, pause);
        let entry = dropped.unwrap_or_else(|| {
            let mut ctx = guest.ctx();
            whole(ctx.read_directory_entry(Resource::<Listing>::new_borrow(rep)))
        });
        match entry.expect("the listing failed") {
            Some(entry) => names.push(entry.name),
            None => is_over = true,
        }
    }
    let mut ctx = guest.ctx();
    let gone = HostDirectoryEntryStream::drop(&mut ctx, Resource::new_own(rep));
    whole(gone).expect("dropped");
    names.sort();
    names
}

#[test]
fn a_listing_loses_no_entry_to_dropped_calls() {
    let mut guest = Guest::new(MemFs::new(MemOptions::default()));
    let task = guest.files.task();
    let mut all: Vec<String> = (0..20).map(|n| format!("name-{n:02}")).collect();
    for name in &all {
        let path = format!("/{name}");
        let fd = task.open(path.as_bytes(), O_CREAT | O_WRONLY, 0o644);
        task.close(fd.expect("a file")).expect("closed");
    }
    all.insert(0, "d".to_owned());
    let given = whole(guest.ctx().get_directories()).expect("directories");
    let root = given[0].0.rep();
    for pause in [0, 200, 2_000].map(Duration::from_micros) {
        for times in 0..4 {
            let names = names_despite_drops(&mut guest, root, times, pause);
            assert_eq!(names, all, "{times} polls, {pause:?} apart");
        }
    }
}

#[test]
fn a_dropped_call_leaves_nothing_open_in_memory() {
    drops(MemFs::new(MemOptions::default()));
}

#[test]
fn a_dropped_call_leaves_nothing_open_on_the_host() {
    let dir = std::env::temp_dir().join(format!("openpath-wasi-drops-{}", std::process::id()));
    let _left_over = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    let options = HostOptions::default().policy(Policy::Exclusive);
    drops(HostFs::open(&dir, options).expect("a tree"));
    std::fs::remove_dir_all(&dir).expect("gone");
}
