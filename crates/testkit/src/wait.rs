//! Polling until a state is reached, with a deadline. Tests poll nowhere else.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long tests wait for an expected state, response or event.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Runs a test on tokio's paused clock, which advances to the next timer whenever all tasks are idle.
pub fn on_paused_time(test: impl Future<Output = ()>) {
    runtime().start_paused(true).build().expect("a runtime").block_on(test);
}

/// Runs a test on the clock of the machine. Tests that use sockets need it, because paused time does not wait
/// for them.
pub fn on_real_time(test: impl Future<Output = ()>) {
    runtime().build().expect("a runtime").block_on(test);
}

fn runtime() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    builder
}

/// Polls until `poll` returns a value, and returns the value. Panics with `what`, the expected state, if that
/// takes longer than [`WAIT_TIMEOUT`].
pub async fn eventually<T, F>(what: &str, mut poll: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {WAIT_TIMEOUT:?}");
        sleep(POLL_INTERVAL).await;
    }
}
