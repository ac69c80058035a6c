// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists wrong rules of mounts and namespaces, for `cargo xtask mutate`.

use super::Mutant;

/// All rules.
pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "slave-deaf",
        wrong: "a mount does not propagate to a slave",
        file: "namespace/graft.rs",
        right: "group if group == 0 || moves => {",
        planted: "group if group == 0 && moves => {",
    },
    Mutant {
        name: "copy-no-peer",
        wrong: "a copy of a shared mount gets peers of its own",
        file: "namespace/make.rs",
        right: "                topology.join(new, group);\n",
        planted: "                if group != 0 {\n\
                  topology.share(new);\n                }\n",
    },
    Mutant {
        name: "unbindable-inside",
        wrong: "a recursive bind includes unbindable mounts",
        file: "namespace/make.rs",
        right: "depth == CopyDepth::Bindable && topology",
        planted: "depth == CopyDepth::One && topology",
    },
    Mutant {
        name: "unbindable-into-shared",
        wrong: "a tree may move into a shared mount if only its top is bindable",
        file: "ops/mounts/move_mount.rs",
        right: "topology.tree(old).iter().any(unbindable)",
        planted: "[old].iter().any(unbindable)",
    },
    Mutant {
        name: "move-from-shared",
        wrong: "a mount may move out of a shared one",
        file: "ops/mounts/move_mount.rs",
        right: "if topology.group_of(from) != 0 || theirs != own {",
        planted: "if theirs != own {",
    },
    Mutant {
        name: "pivot-to-directory",
        wrong: "the new root of pivot_root may be any directory of a mount",
        file: "ops/mounts/pivot_root.rs",
        right: "        || !is_root_of(new_at)\n",
        planted: "",
    },
    Mutant {
        name: "pivot-moves-all",
        wrong: "pivot_root moves every task in the old root's mount, wherever it stands",
        file: "task/pivots.rs",
        right: "if *place == pivot.from {",
        planted: "if place.mount == pivot.from.mount {",
    },
    Mutant {
        name: "umount-in-use",
        wrong: "a mount is unmounted though its copy in a peer is in use",
        file: "namespace/umount.rs",
        right: "if topology.children(cognate).len() == covered {",
        planted: "if topology.children(cognate).len() < covered {",
    },
    Mutant {
        name: "umount-here-only",
        wrong: "propagated copies of a mount stay when it is unmounted",
        file: "namespace/umount.rs",
        right: "UmountExtent::Everywhere => self.with_cognates(topology, top),\n            \
                UmountExtent::Here | UmountExtent::Together =>",
        planted: "UmountExtent::Everywhere | UmountExtent::Here | UmountExtent::Together =>",
    },
    Mutant {
        name: "cognate-with-guests",
        wrong: "a propagated copy is unmounted though something else is mounted in it",
        file: "namespace/umount.rs",
        right: "fates.candidates.contains(&mount) && inside.all(whole);",
        planted: "fates.candidates.contains(&mount) && inside.all(|_| true);",
    },
    Mutant {
        name: "expire-at-once",
        wrong: "the first MNT_EXPIRE unmounts",
        file: "ops/mounts/umount.rs",
        right: "target.mount()?.expiring.set_bits(1) == 0 {",
        planted: "target.mount()?.expiring.set_bits(1) == 2 {",
    },
    Mutant {
        name: "expiry-moves-along",
        wrong: "a moved mount keeps the mark of its first MNT_EXPIRE",
        file: "ops/mounts/move_mount.rs",
        right: "node.data.expiring.set(0);",
        planted: "node.data.expiring.set(node.data.expiring.get());",
    },
    Mutant {
        name: "tree-of-strangers",
        wrong: "a detached tree that was copied in another namespace may be mounted",
        file: "mount/topology.rs",
        right: "anonymous.is_some_and(|ns| ns.origin == 0 || ns.origin == own)",
        planted: "anonymous.is_some()",
    },
    Mutant {
        name: "detached-tree-apart",
        wrong: "a detached tree is dissolved with its last descriptor, even in use",
        file: "namespace/mod.rs",
        right: "self.umount_tree(topology, top, UmountExtent::Together);",
        planted: "self.umount_tree(topology, top, UmountExtent::Here);",
    },
    Mutant {
        name: "remount-resets-atime",
        wrong: "a remount without access time flags sets relatime",
        file: "mount/flags.rs",
        right: "Self(new.0 & !ATIME | self.0 & ATIME)",
        planted: "new",
    },
    Mutant {
        name: "setattr-first-child",
        wrong: "AT_RECURSIVE of mount_setattr ends with the first mount inside",
        file: "ops/mounts/setattr.rs",
        right: "            topology.tree(top)\n",
        planted: "            topology.tree(top).into_iter().take(2).collect()\n",
    },
    Mutant {
        name: "orphans-forgotten",
        wrong: "slaves of a group that ends lose its master",
        file: "mount/group.rs",
        right: "self.receive_from(orphan, master);",
        planted: "self.receive_from(orphan, 0 & master);",
    },
    Mutant {
        name: "lone-slave",
        wrong: "a slave without other peers that is made a slave again loses its master",
        file: "mount/group.rs",
        right: "self.groups.members(group).len() < 2;",
        planted: "self.groups.members(group).is_empty();",
    },
    Mutant {
        name: "mountpoint-anywhere",
        wrong: "a mount point of another namespace cannot be removed",
        file: "mount/topology.rs",
        right: "covering.any(|m| self.namespace_of(m) == namespace)",
        planted: "covering.any(|m| self.namespace_of(m) | namespace != 0)",
    },
];
