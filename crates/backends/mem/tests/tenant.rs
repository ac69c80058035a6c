// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants: whom tasks work for.

use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, TenantLimits, Vfs};
use std::sync::Arc;

#[test]
fn children_work_for_the_tenant_of_their_parent() {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    let vfs = vfs.expect("a Vfs");
    let parent = vfs.task(Cred::root()).expect("a task");
    assert!(Arc::ptr_eq(&parent.tenant(), &vfs.root_tenant()));
    let tenant = vfs.tenant(TenantLimits::default());
    parent.set_tenant(&tenant);
    let children = [parent.fork(), parent.clone_files()];
    for child in children.map(|child| child.expect("a child")) {
        assert!(Arc::ptr_eq(&child.tenant(), &tenant));
        child.set_tenant(&vfs.root_tenant());
    }
    assert!(Arc::ptr_eq(&parent.tenant(), &tenant));
}
