// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that children of a task inherit its tenant, and that files that the task creates are
//! charged to that tenant.

use openpath_abi::fcntl::O_CREAT;
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, TenantLimits, Vfs};
use std::sync::Arc;

#[test]
fn a_child_has_the_tenant_of_its_parent() {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    let vfs = vfs.expect("a Vfs");
    let parent = vfs.task(Cred::root()).expect("a task");
    assert!(Arc::ptr_eq(&parent.tenant(), &vfs.root_tenant()));
    let tenant = vfs.tenant(TenantLimits::default());
    parent.set_tenant(&tenant).expect("a tenant of this Vfs");
    let children = [parent.fork(), parent.clone_files()];
    for child in children.map(|child| child.expect("a child")) {
        assert!(Arc::ptr_eq(&child.tenant(), &tenant));
        child
            .set_tenant(&vfs.root_tenant())
            .expect("a tenant of this Vfs");
    }
    assert!(Arc::ptr_eq(&parent.tenant(), &tenant));
}

#[test]
fn files_take_no_tenant_handle_of_their_own() {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    let vfs = vfs.expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let tenant = vfs.tenant(TenantLimits::default());
    task.set_tenant(&tenant).expect("a tenant of this Vfs");
    let (owners, files) = (Arc::strong_count(&tenant), tenant.stats().inodes);
    for n in 0..1000 {
        let fd = task.open(format!("/{n}").as_bytes(), O_CREAT, 0o644);
        task.close(fd.expect("a file")).expect("close");
    }
    assert_eq!(tenant.stats().inodes, files + 1000);
    assert_eq!(Arc::strong_count(&tenant), owners);
    // The files keep their tenant when the task is dropped.
    drop(task);
    assert_eq!(Arc::strong_count(&tenant), owners);
}
