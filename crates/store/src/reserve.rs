//! Disk space set aside in a file of zeros. On a full disk it is released, so that what must be written to get
//! out of that state finds room. It does not detect the full disk.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
};

use crate::files::create_private;

static CHUNK: [u8; 64 << 10] = [0; 64 << 10];

pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(path: PathBuf, bytes: u64) -> Self {
        Self { path, bytes }
    }

    /// Sets the space aside, unless that has been done.
    pub(crate) fn secure(&self) -> io::Result<()> {
        if self.bytes == 0 || fs::metadata(&self.path).is_ok_and(|present| present.len() >= self.bytes) {
            return Ok(());
        }
        self.fill(self.bytes).map(drop).inspect_err(|_| self.release())
    }

    /// Sets the space aside again after the disk was full, if there is as much room beside it: otherwise the next
    /// write would find the disk full again.
    pub(crate) fn secure_again(&self) -> io::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let secured = self.fill(self.bytes * 2).and_then(|file| {
            file.set_len(self.bytes)?;
            file.sync_all()
        });
        secured.inspect_err(|_| self.release())
    }

    /// Gives the space back.
    pub(crate) fn release(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot release the disk reserve");
        }
    }

    /// Zeros are really written: a file that is only made longer takes no space.
    fn fill(&self, bytes: u64) -> io::Result<File> {
        let mut file: File = create_private(&self.path)?;
        let mut missing = bytes;
        while missing > 0 {
            let chunk = missing.min(CHUNK.len() as u64);
            file.write_all(CHUNK.get(..chunk as usize).unwrap_or(&CHUNK))?;
            missing -= chunk;
        }
        file.sync_all()?;
        Ok(file)
    }
}
