// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists wrong rules of access control lists, for `cargo xtask mutate`.

use super::Mutant;

/// All rules.
pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "acl-unmasked",
        wrong: "the mask does not limit named users and groups",
        file: "acl/check.rs",
        right: "} else if asked & !self.mask() != 0 {",
        planted: "} else if asked & !(self.mask() | 7) != 0 {",
    },
    Mutant {
        name: "acl-first-group",
        wrong: "the first group that the user is in decides",
        file: "acl/check.rs",
        right: "if applies && asked & !perm == 0 {",
        planted: "if applies {",
    },
    Mutant {
        name: "acl-groups-fall-through",
        wrong: "a user with group entries that grant too little gets the rights of others",
        file: "acl/check.rs",
        right: "in_group |= applies;",
        planted: "in_group |= applies && asked > 7;",
    },
    Mutant {
        name: "acl-chmod-group",
        wrong: "chmod changes the entry of the group, not the mask",
        file: "acl/check.rs",
        right: "let group = self.group_class();",
        planted: "let group = AclTag::GroupObj;",
    },
    Mutant {
        name: "acl-umask",
        wrong: "the umask applies despite a default list",
        file: "perm/new_file.rs",
        right: "let (list, bits) = default.inherited(mode);",
        planted: "let (list, bits) = default.inherited(mode & !(umask & 0o777));",
    },
    Mutant {
        name: "acl-default-stays",
        wrong: "a new directory does not pass the default list on",
        file: "perm/new_file.rs",
        right: "default: mode::is_dir(mode).then_some(default),",
        planted: "default: (mode::is_dir(mode) && umask > 0o777).then_some(default),",
    },
];
