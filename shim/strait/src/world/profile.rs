//! The rendezvous profile that a world follows, and the one that it records.

use std::fs;
use std::path::PathBuf;

use super::World;
use crate::error::ProfileError;
use crate::{Error, env, profile};

impl World {
    /// Follows the profile in the directory `chosen`, or in that of the environment, which wins.
    /// Begins to record one if the environment asks for it. No operation has begun.
    pub(super) fn begin_profiles(&mut self, chosen: Option<PathBuf>) -> Result<(), Error> {
        if let Some(directory) = env::rendezvous_profile()?.or(chosen) {
            let (profile, _) = profile::read_rank(&directory, self.rank, Some(self.size))?;
            self.lock_progress().follow_profile(&profile)?;
        }
        self.profile_out = env::rendezvous_profile_out()?;
        if self.profile_out.is_some() {
            self.lock_progress().record_profile();
        }
        Ok(())
    }

    /// Writes the profile of this run, if it is recorded.
    pub(super) fn write_profile(&self) -> Result<(), ProfileError> {
        let Some(directory) = &self.profile_out else { return Ok(()) };
        let mut envelopes: Vec<_> = self.lock_progress().profile().collect();
        envelopes.sort_unstable();
        let text = profile::text_of(&envelopes, self.rank, self.size);
        let path = profile::file_of(directory, self.rank);
        let written = fs::create_dir_all(directory).and_then(|()| fs::write(&path, text));
        written.map_err(|error| ProfileError::Write { path, error })
    }
}
