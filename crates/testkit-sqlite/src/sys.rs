// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the callbacks of SQLite, `sqlite3_vfs` and `sqlite3_io_methods`, on [`TaskVfs`] and
//! [`Handle`].
//!
//! # Rules
//! * The only file of this crate with `unsafe`. Every function here turns pointers into references
//!   and slices, and calls safe code.
//! * S1. SQLite passes what its page "OS Interface Object" promises: the VFS or file that the
//!   function belongs to, strings that end, writable places for results, and buffers of the stated
//!   length.
//! * S2. A VFS is registered under a unique name, by a value that stays on its thread; it is
//!   unregistered after the last connection that used it.
//! * S3. A connection makes one call at a time, and no call on a file makes another call on it.
//! * A panic in a callback ends the process: it cannot unwind through C.

use crate::file::Handle;
use crate::task_vfs::{Code, TaskVfs};
use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::rc::Rc;
use std::{ptr, slice};

/// A registered VFS; its first field is what SQLite sees.
#[repr(C)]
struct Entry {
    vfs: sqlite3_vfs,
    name: CString,
    task_vfs: Rc<TaskVfs>,
}

/// An open file in SQLite's memory; its first field is what SQLite sees.
#[repr(C)]
struct Opened {
    base: sqlite3_file,
    /// From `Box::into_raw` in `open`; freed in `close`.
    handle: *mut Handle,
}

/// A VFS that SQLite knows as long as this value lives.
pub(crate) struct Registered(*mut Entry);

impl Registered {
    /// # Errors
    /// Errors of SQLite.
    pub(crate) fn new(task_vfs: Rc<TaskVfs>) -> rusqlite::Result<Self> {
        let entry = Box::into_raw(Box::new(Entry {
            vfs: TABLE,
            name: CString::default(),
            task_vfs,
        }));
        // Unique while the entry lives.
        let name = CString::new(format!("openpath-{entry:p}")).unwrap_or_default();
        // SAFETY: the entry is ours and lives until `Registered` is dropped, and so does the name,
        // at a fixed address; SQLite changes the first field only, and no reference covers that
        // field.
        let code = unsafe {
            (*entry).vfs.zName = name.as_ptr();
            (*entry).name = name;
            ffi::sqlite3_vfs_register(entry.cast(), 0)
        };
        let registered = Self(entry);
        match code {
            ffi::SQLITE_OK => Ok(registered),
            _ => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
        }
    }

    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: the entry lives as long as `self`, and nothing changes the name.
        unsafe { &(*self.0).name }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: `Box::into_raw` made the entry, and only this drops it. Once it is unregistered
        // SQLite cannot find it, and all connections that used it are closed (S2).
        unsafe {
            ffi::sqlite3_vfs_unregister(self.0.cast());
            drop(Box::from_raw(self.0));
        }
    }
}

const TABLE: sqlite3_vfs = sqlite3_vfs {
    iVersion: 2,
    szOsFile: size_of::<Opened>() as c_int,
    mxPathname: 512,
    pNext: ptr::null_mut(),
    zName: ptr::null(),
    pAppData: ptr::null_mut(),
    xOpen: Some(open),
    xDelete: Some(delete),
    xAccess: Some(access),
    xFullPathname: Some(full_name),
    xDlOpen: None,
    xDlError: None,
    xDlSym: None,
    xDlClose: None,
    xRandomness: Some(random),
    xSleep: Some(sleep),
    xCurrentTime: Some(now_days),
    xGetLastError: Some(last_error),
    xCurrentTimeInt64: Some(now_ms),
    xSetSystemCall: None,
    xGetSystemCall: None,
    xNextSystemCall: None,
};

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

fn code(result: Result<(), Code>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}

/// The connection's system calls.
///
/// # Safety
/// S1, and the reference is not used after the call.
unsafe fn task_vfs<'a>(vfs: *mut sqlite3_vfs) -> &'a Rc<TaskVfs> {
    // SAFETY: the VFS is the first field of an entry, which lives (S2), and nothing changes this
    // field.
    unsafe { &(*vfs.cast::<Entry>()).task_vfs }
}

/// The file's handle.
///
/// # Safety
/// S1 and S3, and the reference is not used after the call.
unsafe fn handle<'a>(file: *mut sqlite3_file) -> &'a mut Handle {
    // SAFETY: SQLite calls methods only of files that `open` filled in and `close` did not empty,
    // one at a time (S3).
    unsafe { &mut *(*file.cast::<Opened>()).handle }
}

/// The bytes of a name.
///
/// # Safety
/// S1, and the reference is not used after the call.
unsafe fn bytes<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: a C string that ends (S1).
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// A length; SQLite passes no negative ones.
fn length(many: c_int) -> usize {
    usize::try_from(many).unwrap_or(0)
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: S1; the name may be null, and so may the place for flags. The file is `szOsFile`
    // bytes of memory for us to fill, aligned to 8.
    unsafe {
        let opened = file.cast::<Opened>();
        // Without methods, SQLite does not close it.
        (*opened).base.pMethods = ptr::null();
        let name = (!name.is_null()).then(|| bytes(name));
        match Handle::open(task_vfs(vfs), name, flags) {
            Ok(handle) => {
                (*opened).handle = Box::into_raw(Box::new(handle));
                (*opened).base.pMethods = &raw const METHODS;
                if !out_flags.is_null() {
                    *out_flags = flags;
                }
                ffi::SQLITE_OK
            }
            Err(code) => code,
        }
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: S1.
    code(unsafe { task_vfs(vfs).delete(bytes(name), sync != 0) })
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    what: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: S1.
    unsafe { *out = c_int::from(task_vfs(vfs).access(bytes(name), what)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_name(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: S1.
    let full = TaskVfs::full_name(unsafe { bytes(name) });
    if full.len() >= length(room) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: S1, and there is room for the name and its NUL.
    unsafe {
        ptr::copy_nonoverlapping(full.as_ptr(), out.cast(), full.len());
        *out.add(full.len()) = 0;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn random(_: *mut sqlite3_vfs, many: c_int, out: *mut c_char) -> c_int {
    let mut drawn = vec![0; length(many)];
    let done = TaskVfs::random(&mut drawn);
    // SAFETY: S1: this many bytes may be written.
    unsafe { ptr::copy_nonoverlapping(drawn.as_ptr(), out.cast(), drawn.len()) };
    c_int::try_from(done).unwrap_or(0)
}

unsafe extern "C" fn sleep(_: *mut sqlite3_vfs, micros: c_int) -> c_int {
    TaskVfs::sleep(micros);
    micros
}

unsafe extern "C" fn now_days(_: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: S1.
    unsafe { *out = TaskVfs::now_ms() as f64 / 86_400_000.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn now_ms(_: *mut sqlite3_vfs, out: *mut i64) -> c_int {
    // SAFETY: S1.
    unsafe { *out = TaskVfs::now_ms() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(vfs: *mut sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    // SAFETY: S1.
    let errno = unsafe { task_vfs(vfs).last_errno() };
    errno.map_or(0, |errno| errno.raw())
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: S1; `open` made the handle, and SQLite does not use the file after this call.
    let handle = unsafe { Box::from_raw((*file.cast::<Opened>()).handle) };
    code(handle.close())
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    out: *mut c_void,
    many: c_int,
    at: i64,
) -> c_int {
    // SAFETY: S1, S3; memory that SQLite has not initialised is zeroed before it becomes a slice.
    // So bytes beyond the end of the file are zeros, as SQLite requires.
    unsafe {
        ptr::write_bytes(out.cast::<u8>(), 0, length(many));
        let out = slice::from_raw_parts_mut(out.cast::<u8>(), length(many));
        code(handle(file).read(out, at))
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    many: c_int,
    at: i64,
) -> c_int {
    // SAFETY: S1, S3.
    unsafe {
        let data = slice::from_raw_parts(data.cast::<u8>(), length(many));
        code(handle(file).write(data, at))
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).truncate(size) })
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).sync() })
}

unsafe extern "C" fn size(file: *mut sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).size().map(|size| *out = size) })
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).lock(level) })
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).unlock(level) })
}

unsafe extern "C" fn check_reserved(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).is_reserved().map(|is| *out = c_int::from(is)) })
}

unsafe extern "C" fn control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    4096
}

/// No guarantees.
unsafe extern "C" fn characteristics(_: *mut sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    number: c_int,
    size: c_int,
    make: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: S1, S3. The memory consists of atomics, so all users may store to it; it stays in
    // place until the index is released.
    code(unsafe {
        let region = handle(file).map(number, size, make != 0);
        region.map(|region| *out = region.cast_mut().cast())
    })
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    first: c_int,
    many: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).lock_slots(first, many, flags) })
}

unsafe extern "C" fn shm_barrier(_: *mut sqlite3_file) {
    Handle::barrier();
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: S1, S3.
    code(unsafe { handle(file).unmap(delete != 0) })
}
