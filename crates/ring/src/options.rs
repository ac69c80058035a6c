// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a ring is set up.

/// How a [`crate::Ring`] or an [`crate::AsyncTask`] is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RingOptions {
    /// Entries of the submission queue, 1 to 32,768.
    pub entries: u32,
    /// Entries of the completion queue, as many as operations that are under way and completions
    /// that nobody has taken together; at least as many as `entries`, 65,536 at most. 0: twice
    /// `entries`.
    pub completions: u32,
    /// The most workers at a time, if less than the pool allows.
    pub workers: Option<usize>,
    /// Slots for direct descriptors.
    pub slots: u32,
    /// Whether operations are attempted where they are submitted before a worker is asked; without,
    /// every one is offloaded, as hosts do that cannot know. It never changes a result. Gate:
    /// `Ring::attempt`, `AsyncTask::attempt`.
    pub inline: bool,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            entries: 128,
            completions: 0,
            workers: None,
            slots: 0,
            inline: true,
        }
    }
}
