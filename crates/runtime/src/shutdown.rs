//! Graceful shutdown: tasks are asked to stop and then awaited. What they need until then, such as the leader-election
//! Lease, stops after them.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The shutdown of a process, as its tasks see it. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
    last_token: CancellationToken,
    last_tasks: TaskTracker,
}

impl Shutdown {
    /// Starts a task that the shutdown waits for. The task must stop when [`requested`](Self::requested) resolves.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task);
    }

    /// Starts a task that other tasks need until they have stopped. It must stop when
    /// [`other_tasks_stopped`](Self::other_tasks_stopped) resolves.
    pub fn spawn_last<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.last_tasks.spawn(task);
    }

    /// Resolves when shutdown was requested and every task started by [`spawn`](Self::spawn) has stopped.
    pub fn other_tasks_stopped(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        self.last_token.clone().cancelled_owned()
    }

    /// Resolves when shutdown is requested: start nothing new, and finish what is running.
    pub fn requested(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        self.token.clone().cancelled_owned()
    }

    /// Whether shutdown was requested.
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Requests shutdown and returns when every task has stopped. The caller limits how long that may take.
    pub async fn finish(&self) {
        self.token.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.last_token.cancel();
        self.last_tasks.close();
        self.last_tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn finish_waits_for_running_tasks() {
        let shutdown = Shutdown::default();
        let finished = Arc::new(AtomicBool::new(false));
        shutdown.spawn({
            let (requested, finished) = (shutdown.requested(), finished.clone());
            async move {
                requested.await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                finished.store(true, Ordering::Relaxed);
            }
        });
        assert!(!shutdown.is_requested());
        shutdown.finish().await;
        assert!(finished.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn last_tasks_stop_after_all_others() {
        let shutdown = Shutdown::default();
        let (finished, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        shutdown.spawn_last({
            let (stopped, finished, seen) = (shutdown.other_tasks_stopped(), finished.clone(), seen.clone());
            async move {
                stopped.await;
                seen.store(finished.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        });
        shutdown.spawn({
            let (requested, finished) = (shutdown.requested(), finished.clone());
            async move {
                requested.await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                finished.store(true, Ordering::Relaxed);
            }
        });
        shutdown.finish().await;
        assert!(seen.load(Ordering::Relaxed));
    }
}
