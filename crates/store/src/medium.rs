//! What lies between the database and its file. It holds back all writes until the log has been read and found
//! sound, so that a damaged file stays as it is; it remembers what is not synced yet, so that it can be written
//! again after a full disk; and it keeps the first fault. It does not know what the bytes mean.

use std::{fmt, io, sync::Arc};

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::Durability;

/// A file, or whatever a test puts in its place.
pub(crate) struct Medium {
    backend: Box<dyn StorageBackend>,
    durability: Durability,
    state: Mutex<State>,
}

struct State {
    mode: Mode,
    /// What was written since the last sync; while held, since the database was opened.
    steps: Vec<Step>,
    fault: Option<Fault>,
}

#[derive(Copy, Clone)]
enum Mode {
    /// Nothing reaches the file. It would be `len` bytes long, of which the first `sound` are still its own.
    Held { len: u64, sound: u64 },
    /// Everything reaches the file.
    Through,
}

enum Step {
    Write { offset: u64, bytes: Vec<u8> },
    Resize { len: u64 },
    Sync,
}

/// What a disk did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is full: nothing is lost, and it may take writes again later.
    Full(String),
    /// Anything else: what it holds is unknown.
    Broken(String),
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(error.to_string()),
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl Medium {
    pub(crate) fn new(backend: impl StorageBackend, durability: Durability) -> Arc<Self> {
        let state = State { mode: Mode::Through, steps: Vec::new(), fault: None };
        Arc::new(Self { backend: Box::new(backend), durability, state: Mutex::new(state) })
    }

    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.backend.len()? == 0)
    }

    /// Holds all further writes back. Call only when everything is synced.
    pub(crate) fn hold(&self) -> io::Result<()> {
        let len = self.backend.len()?;
        let mut state = self.state.lock();
        state.mode = Mode::Held { len, sound: len };
        state.steps.clear();
        state.fault = None;
        Ok(())
    }

    /// Writes what is not synced (or was held back) in its order, syncs, and lets writes through from now on.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        for step in &state.steps {
            match step {
                Step::Write { offset, bytes } => self.backend.write(*offset, bytes)?,
                Step::Resize { len } => self.backend.set_len(*len)?,
                Step::Sync => self.sync_backend()?,
            }
        }
        self.sync_backend()?;
        state.mode = Mode::Through;
        state.steps.clear();
        state.fault = None;
        Ok(())
    }

    /// The first fault since the medium was settled.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.state.lock().fault.clone()
    }

    fn sync_backend(&self) -> io::Result<()> {
        match self.durability {
            Durability::Sync => self.backend.sync_data(),
            Durability::None => Ok(()),
        }
    }
}

impl State {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && self.fault.is_none()
        {
            self.fault = Some(error.into());
        }
        result
    }

    /// What the file would hold at `offset`, had the held writes reached it.
    fn read_held(
        &self,
        backend: &dyn StorageBackend,
        sound: u64,
        offset: u64,
        out: &mut [u8],
    ) -> io::Result<()> {
        let own = sound.saturating_sub(offset).min(out.len() as u64) as usize;
        let (from_file, beyond) = out.split_at_mut(own);
        if !from_file.is_empty() {
            backend.read(offset, from_file)?;
        }
        beyond.fill(0);
        for step in &self.steps {
            if let Step::Write { offset: start, bytes } = step {
                overlay(out, offset, bytes, *start);
            }
        }
        Ok(())
    }
}

/// Copies the part of `bytes`, which start at `start`, that falls on `out`, which starts at `offset`.
fn overlay(out: &mut [u8], offset: u64, bytes: &[u8], start: u64) {
    let skip_out = start.saturating_sub(offset).min(out.len() as u64) as usize;
    let skip_bytes = offset.saturating_sub(start).min(bytes.len() as u64) as usize;
    if let (Some(out), Some(bytes)) = (out.get_mut(skip_out..), bytes.get(skip_bytes..)) {
        for (out, byte) in out.iter_mut().zip(bytes) {
            *out = *byte;
        }
    }
}

/// The medium, as the database sees it.
pub(crate) struct Handle(pub(crate) Arc<Medium>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.backend.fmt(f)
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        match self.0.state.lock().mode {
            Mode::Held { len, .. } => Ok(len),
            Mode::Through => self.0.backend.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        let result = match state.mode {
            Mode::Held { len, .. } if offset.saturating_add(out.len() as u64) > len => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is cut short"))
            }
            Mode::Held { sound, .. } => state.read_held(self.0.backend.as_ref(), sound, offset, out),
            Mode::Through => self.0.backend.read(offset, out),
        };
        state.note(result)
    }

    fn set_len(&self, new: u64) -> io::Result<()> {
        let mut state = self.0.state.lock();
        match &mut state.mode {
            Mode::Held { len, sound } => {
                *len = new;
                *sound = new.min(*sound);
            }
            Mode::Through => {
                let result = self.0.backend.set_len(new);
                state.note(result)?;
            }
        }
        state.steps.push(Step::Resize { len: new });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.state.lock();
        match state.mode {
            Mode::Held { .. } => state.steps.push(Step::Sync),
            Mode::Through => {
                let result = self.0.sync_backend();
                state.note(result)?;
                state.steps.clear();
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if let Mode::Through = state.mode {
            let result = self.0.backend.write(offset, data);
            state.note(result)?;
        }
        state.steps.push(Step::Write { offset, bytes: data.to_vec() });
        Ok(())
    }

    // Locks stay unsupported: the store's lock file keeps others away, also while the database is reopened.
}
