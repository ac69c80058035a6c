// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts many guests on a tokio runtime: cached opens are answered in the guest's own task, and
//! only calls that would wait go to openpath's workers, not to tokio's.
//!
//! `cargo run --release -p openpath-ring --example tokio_host`

use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{AsyncTask, Pool, PoolOptions, RingOptions};
use openpath_vfs::{Cred, Vfs};

/// A guest: writes a file of its own, and reads one that all share.
async fn guest(mut task: AsyncTask, number: u32) -> Result<u64, Errno> {
    let own = format!("/home/{number}");
    let fd = task.open(own.as_bytes(), O_CREAT | O_WRONLY, 0o644).await?;
    task.write(fd, own.as_bytes()).await?;
    task.close(fd).await?;
    let mut total = 0;
    for _ in 0..1000 {
        let fd = task.open(b"/etc/motd", O_RDONLY, 0).await?;
        let mut text = [0; 64];
        total += task.read(fd, &mut text).await? as u64;
        task.close(fd).await?;
    }
    Ok(total)
}

/// Two calls of one guest at a time, in one thread.
async fn pair(task: &AsyncTask) -> Result<(), Errno> {
    let local = task.local();
    let (home, none) = tokio::join!(local.stat(b"/home"), local.stat(b"/none"));
    assert!(home.is_ok() && none == Err(Errno::ENOENT));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
    let pool = Pool::new(PoolOptions::default());
    let new = || AsyncTask::new(vfs.task(Cred::root())?, &pool, RingOptions::default());

    let current = tokio::runtime::Builder::new_current_thread().build()?;
    let mut task = new()?;
    current.block_on(async {
        task.mkdirat(AT_FDCWD, b"/etc", 0o755).await?;
        task.mkdirat(AT_FDCWD, b"/home", 0o755).await?;
        let fd = task.open(b"/etc/motd", O_CREAT | O_WRONLY, 0o644).await?;
        task.write(fd, b"welcome\n").await?;
        task.close(fd).await?;
        pair(&task).await
    })?;

    let threads = tokio::runtime::Builder::new_multi_thread().build()?;
    let guests: Result<Vec<_>, Errno> = (0..16)
        .map(|number| Ok(threads.spawn(guest(new()?, number))))
        .collect();
    let mut total = 0;
    for guest in guests? {
        total += threads.block_on(guest)??;
    }
    let activity = vfs.root_tenant().stats().activity;
    println!("read {total} bytes");
    println!("opens answered in place: {}", activity.opens_inline);
    println!("opens left to a worker:  {}", activity.opens_offloaded);
    Ok(())
}
