// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a random call of `op` on `wasi:filesystem` of openpath or of wasmtime-wasi, and gives the
//! answer as text that can be compared.
//!
//! The two have traits of the same names in different modules, so a macro defines the code once for
//! each.

/// Defines a module that calls `$guest` by the traits of `$files`.
macro_rules! asking {
    ($name:ident, $guest:ty, [$($files:ident)::+], |$g:ident| $view:expr) => {
        mod $name {
            use crate::op::{Op, SLOTS, Time};
            use std::fmt::Debug;
            use wasmtime::component::Resource;
            use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
            use $($files)::+::preopens::Host as _;
            use $($files)::+::types::*;

            pub(crate) struct Guest {
                it: $guest,
                slots: [Option<u32>; SLOTS],
            }

            /// A handle for the length of a call.
            fn lent(rep: u32) -> Resource<Descriptor> {
                Resource::new_borrow(rep)
            }

            fn time(time: Time) -> NewTimestamp {
                match time {
                    Time::Keep => NewTimestamp::NoChange,
                    Time::Now => NewTimestamp::Now,
                    Time::At(seconds, nanoseconds) => NewTimestamp::Timestamp(Datetime {
                        seconds,
                        nanoseconds,
                    }),
                }
            }

            fn follow(on: bool) -> PathFlags {
                if on { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() }
            }

            fn open_flags(bits: u8) -> OpenFlags {
                let all = [
                    OpenFlags::CREATE,
                    OpenFlags::DIRECTORY,
                    OpenFlags::EXCLUSIVE,
                    OpenFlags::TRUNCATE,
                ];
                let on = all.into_iter().enumerate().filter(|(i, _)| bits >> i & 1 != 0);
                on.fold(OpenFlags::empty(), |all, (_, flag)| all | flag)
            }

            fn flags(bits: u8) -> DescriptorFlags {
                let all = [
                    DescriptorFlags::READ,
                    DescriptorFlags::WRITE,
                    DescriptorFlags::FILE_INTEGRITY_SYNC,
                    DescriptorFlags::DATA_INTEGRITY_SYNC,
                    DescriptorFlags::REQUESTED_WRITE_SYNC,
                    DescriptorFlags::MUTATE_DIRECTORY,
                ];
                let on = all.into_iter().enumerate().filter(|(i, _)| bits >> i & 1 != 0);
                on.fold(DescriptorFlags::empty(), |all, (_, flag)| all | flag)
            }

            /// The comparable attributes: no size of a directory, and no time that no call has set.
            fn stat(stat: DescriptorStat) -> String {
                let set = |time: Option<Datetime>| match time {
                    Some(at) if at.seconds < 1_000 => format!("{}.{}", at.seconds, at.nanoseconds),
                    Some(_) => "now".to_owned(),
                    None => "none".to_owned(),
                };
                let is_dir = matches!(stat.type_, DescriptorType::Directory);
                let size = if is_dir { 0 } else { stat.size };
                let mtime = if is_dir {
                    String::new()
                } else {
                    set(stat.data_modification_timestamp)
                };
                format!("{:?} {} {size} {mtime}", stat.type_, stat.link_count)
            }

            fn plain<T: Debug>(result: Result<T, String>) -> String {
                match result {
                    Ok(value) => format!("{value:?}"),
                    Err(code) => code,
                }
            }

            impl Guest {
                pub(crate) async fn new(it: $guest) -> Self {
                    let mut guest = Self {
                        it,
                        slots: [None; SLOTS],
                    };
                    let given = {
                        let $g = &mut guest.it;
                        #[allow(unused_mut, reason = "one of the two takes it by value")]
                        let mut view = $view;
                        crate::ask::asking!(@given $name, view)
                    };
                    assert_eq!(given.len(), 1);
                    guest.slots[0] = given.first().map(|(dir, _)| dir.rep());
                    guest
                }

                #[allow(clippy::too_many_lines, reason = "one or two lines per function")]
                pub(crate) async fn ask(&mut self, op: &Op) -> String {
                    let slots = self.slots;
                    let slot = |slot: usize| slots[slot];
                    /// Calls a method, and returns its result as text.
                    macro_rules! call {
                        (|$v:ident| $call:expr) => {{
                            let came = {
                                let $g = &mut self.it;
                                let mut $v = $view;
                                $call.await
                            };
                            match came {
                                Ok(value) => Ok(value),
                                Err(error) => {
                                    let $g = &mut self.it;
                                    let mut view = $view;
                                    Err(match view.convert_error_code(error) {
                                        Ok(code) => code.name().to_owned(),
                                        Err(trap) => format!("trap {trap:?}"),
                                    })
                                }
                            }
                        }};
                    }
                    /// The handle in a slot, if there is one.
                    macro_rules! fd {
                        ($slot:expr) => {
                            match slot(*$slot) {
                                Some(rep) => rep,
                                None => return "empty".to_owned(),
                            }
                        };
                    }
                    match op {
                        Op::Open { dir, path, follow: f, how, flags: asked, slot: to } => {
                            let dir = fd!(dir);
                            let opened = call!(|v| v.open_at(
                                lent(dir), follow(*f), path.clone(), open_flags(*how), flags(*asked)
                            ));
                            match opened {
                                Ok(fd) => {
                                    self.put(*to, Some(fd.rep())).await;
                                    "opened".to_owned()
                                }
                                Err(code) => code,
                            }
                        }
                        Op::Drop(at) => {
                            if *at != 0 {
                                self.put(*at, None).await;
                            }
                            String::new()
                        }
                        Op::Stat(fd) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.stat(lent(fd))).map(stat))
                        }
                        Op::StatAt(fd, f, path) => {
                            let fd = fd!(fd);
                            let (how, path) = (follow(*f), path.clone());
                            plain(call!(|v| v.stat_at(lent(fd), how, path)).map(stat))
                        }
                        Op::SetSize(fd, size) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.set_size(lent(fd), *size)))
                        }
                        Op::Read(fd, len, at) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.read(lent(fd), *len, *at)))
                        }
                        Op::Write(fd, data, at) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.write(lent(fd), data.clone(), *at)))
                        }
                        Op::List(fd) => {
                            let fd = fd!(fd);
                            let listing = match call!(|v| v.read_directory(lent(fd))) {
                                Ok(listing) => listing.rep(),
                                Err(code) => return code,
                            };
                            let mut all = Vec::new();
                            loop {
                                let lent = || Resource::new_borrow(listing);
                                match call!(|v| v.read_directory_entry(lent())) {
                                    Ok(Some(entry)) => all.push(format!("{entry:?}")),
                                    Ok(None) => break,
                                    Err(code) => all.push(code),
                                }
                            }
                            all.sort();
                            all.join(" ")
                        }
                        Op::Mkdir(fd, path) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.create_directory_at(lent(fd), path.clone())))
                        }
                        Op::Rmdir(fd, path) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.remove_directory_at(lent(fd), path.clone())))
                        }
                        Op::Unlink(fd, path) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.unlink_file_at(lent(fd), path.clone())))
                        }
                        Op::Rename(fd, old, to, new) => {
                            let (fd, to) = (fd!(fd), fd!(to));
                            plain(call!(|v| v.rename_at(
                                lent(fd), old.clone(), lent(to), new.clone()
                            )))
                        }
                        Op::Link(fd, f, old, to, new) => {
                            let (fd, to) = (fd!(fd), fd!(to));
                            plain(call!(|v| v.link_at(
                                lent(fd), follow(*f), old.clone(), lent(to), new.clone()
                            )))
                        }
                        Op::Symlink(fd, target, path) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.symlink_at(lent(fd), target.clone(), path.clone())))
                        }
                        Op::Readlink(fd, path) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.readlink_at(lent(fd), path.clone())))
                        }
                        Op::SetTimes(fd, a, m) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.set_times(lent(fd), time(*a), time(*m))))
                        }
                        Op::SetTimesAt(fd, f, path, a, m) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.set_times_at(
                                lent(fd), follow(*f), path.clone(), time(*a), time(*m)
                            )))
                        }
                        Op::Same(fd, other) => {
                            let (fd, other) = (fd!(fd), fd!(other));
                            let $g = &mut self.it;
                            let mut view = $view;
                            format!("{:?}", view.is_same_object(lent(fd), lent(other)).await.ok())
                        }
                        Op::HashAt(fd, f, path) => {
                            let fd = fd!(fd);
                            let hash = call!(|v| v.metadata_hash(lent(fd)));
                            let (how, path) = (follow(*f), path.clone());
                            let at = call!(|v| v.metadata_hash_at(lent(fd), how, path));
                            match (hash, at) {
                                (Ok(hash), Ok(at)) => {
                                    let same = (hash.lower, hash.upper) == (at.lower, at.upper);
                                    format!("same {same}")
                                }
                                (_, Err(code)) | (Err(code), _) => code,
                            }
                        }
                        Op::Flags(fd) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.get_flags(lent(fd))))
                        }
                        Op::Type(fd) => {
                            let fd = fd!(fd);
                            plain(call!(|v| v.get_type(lent(fd))))
                        }
                        Op::Sync(fd, data) => {
                            let fd = fd!(fd);
                            plain(if *data {
                                call!(|v| v.sync_data(lent(fd)))
                            } else {
                                call!(|v| v.sync(lent(fd)))
                            })
                        }
                        Op::Advise(fd, at, len, which) => {
                            let fd = fd!(fd);
                            let which = [
                                Advice::Normal,
                                Advice::Sequential,
                                Advice::Random,
                                Advice::WillNeed,
                                Advice::DontNeed,
                                Advice::NoReuse,
                            ][usize::from(*which)];
                            plain(call!(|v| v.advise(lent(fd), *at, *len, which)))
                        }
                        Op::StreamIn(fd, at, size) => {
                            let fd = fd!(fd);
                            let opened = call!(|v| {
                                let stream = v.read_via_stream(lent(fd), *at);
                                crate::ask::asking!(@stream $name, stream)
                            });
                            let stream = match opened {
                                Ok(stream) => stream,
                                Err(code) => return code,
                            };
                            let mut stream = self.it.table.delete(stream).expect("no stream");
                            let mut came = Vec::new();
                            for _ in 0..3 {
                                let read = stream.blocking_read(*size as usize).await;
                                came.push(match read {
                                    Ok(data) => format!("{} {:?}", data.len(), data.first()),
                                    Err(error) => self.failed(error).await,
                                });
                            }
                            stream.cancel().await;
                            came.join(", ")
                        }
                        Op::StreamOut(fd, at, data) => {
                            let fd = fd!(fd);
                            let opened = match at {
                                Some(at) => call!(|v| {
                                    let stream = v.write_via_stream(lent(fd), *at);
                                    crate::ask::asking!(@stream $name, stream)
                                }),
                                None => call!(|v| {
                                    let stream = v.append_via_stream(lent(fd));
                                    crate::ask::asking!(@stream $name, stream)
                                }),
                            };
                            let stream = match opened {
                                Ok(stream) => stream,
                                Err(code) => return code,
                            };
                            let mut stream = self.it.table.delete(stream).expect("no stream");
                            let mut came = Vec::new();
                            for _ in 0..2 {
                                let data = wasmtime_wasi_io::bytes::Bytes::from(data.clone());
                                came.push(match stream.blocking_write_and_flush(data).await {
                                    Ok(()) => "written".to_owned(),
                                    Err(error) => self.failed(error).await,
                                });
                            }
                            stream.cancel().await;
                            came.join(", ")
                        }
                    }
                }

                async fn failed(
                    &mut self,
                    error: wasmtime_wasi_io::streams::StreamError,
                ) -> String {
                    use wasmtime_wasi_io::streams::StreamError;
                    let StreamError::LastOperationFailed(error) = error else {
                        return format!("{error:?}");
                    };
                    let error = self.it.table.push(error).expect("the table has room");
                    let code = {
                        let $g = &mut self.it;
                        #[allow(unused_mut, reason = "one of the two takes it by value")]
                        let mut view = $view;
                        let lent = Resource::new_borrow(error.rep());
                        crate::ask::asking!(@wait $name, view.filesystem_error_code(lent))
                    };
                    format!("failed {:?}", code.expect("no trap").map(|code| code.name()))
                }

                async fn put(&mut self, slot: usize, rep: Option<u32>) {
                    let old = std::mem::replace(&mut self.slots[slot], rep);
                    if let Some(old) = old {
                        let $g = &mut self.it;
                        #[allow(unused_mut, reason = "one of the two takes it by value")]
                        let mut view = $view;
                        let owned = Resource::<Descriptor>::new_own(old);
                        let dropped = HostDescriptor::drop(&mut view, owned);
                        let dropped = crate::ask::asking!(@wait $name, dropped);
                        dropped.expect("a handle");
                    }
                }
            }
        }
    };
    (@given ours, $view:ident) => {
        $view.get_directories().await.expect("directories")
    };
    (@given theirs, $view:ident) => {
        $view.get_directories().expect("directories")
    };
    (@wait ours, $call:expr) => { $call.await };
    (@wait theirs, $call:expr) => { $call };
    (@stream ours, $call:expr) => { $call };
    (@stream theirs, $call:expr) => { std::future::ready($call) };
}

pub(crate) use asking;
