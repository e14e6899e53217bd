//! Waiting for a state, with a deadline. The only place where tests look at something again and again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long tests wait for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN: Duration = Duration::from_millis(25);

/// Runs a test on tokio's paused clock, which jumps ahead whenever nothing else is left to do.
pub fn on_paused_time(test: impl Future<Output = ()>) {
    runtime().start_paused(true).build().expect("a runtime").block_on(test);
}

/// Runs a test on the machine's clock, which is what sockets go by.
pub fn on_real_time(test: impl Future<Output = ()>) {
    runtime().build().expect("a runtime").block_on(test);
}

fn runtime() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    builder
}

/// Asks until there is an answer; panics with `what` when there is none in time.
pub async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        sleep(BETWEEN).await;
    }
}
