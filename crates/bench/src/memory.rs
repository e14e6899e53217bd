//! The largest memory of a process, in parts that the kernel does not keep: memory of its own, and pages of mapped files.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::process::{Process, read_memory};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The largest values of the samples so far, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeakMemory {
    /// Memory of its own, which only the process can release.
    pub(crate) anonymous: u64,
    /// Pages of files that it has mapped, such as an SQLite database. The kernel drops them when memory is short.
    pub(crate) files: u64,
}

/// Samples the memory of a process until it is dropped or the process ends.
pub(crate) struct MemorySampler {
    peak: Arc<Mutex<PeakMemory>>,
    task: JoinHandle<()>,
}

impl MemorySampler {
    pub(crate) fn start(process: &Process) -> Self {
        let peak = Arc::new(Mutex::new(PeakMemory::default()));
        let task = tokio::spawn(sample(process.id().to_string(), Arc::clone(&peak)));
        Self { peak, task }
    }

    pub(crate) fn peak(&self) -> PeakMemory {
        *self.peak.lock()
    }
}

impl Drop for MemorySampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn sample(process: String, peak: Arc<Mutex<PeakMemory>>) {
    // A process that has ended has no such files.
    while let (Ok(anonymous), Ok(files)) =
        (read_memory(&process, "RssAnon"), read_memory(&process, "RssFile"))
    {
        {
            let mut peak = peak.lock();
            peak.anonymous = peak.anonymous.max(anonymous);
            peak.files = peak.files.max(files);
        }
        tokio::time::sleep(SAMPLE_INTERVAL).await;
    }
}
