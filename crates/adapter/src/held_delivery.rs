//! A delivery whose event waits or runs. It is extended until it is settled, so that the broker does not deliver the event again
//! meanwhile. One that is dropped is delivered again after the visibility timeout.

use std::time::Duration;

use bellwether_broker::{BrokerError, Delivery};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a delivery is extended: while its event waits for another one of its resource, and while it runs. It is shorter than
/// RabbitMQ's `consumer_timeout` of 30 min.
const MAX_HOLD: Duration = Duration::from_secs(15 * 60);
/// How often a delivery is extended within its visibility timeout, so that one failed extension does no harm.
const EXTENSIONS_PER_TIMEOUT: u32 = 3;

/// A delivery that is extended until it is settled or dropped.
pub(crate) struct HeldDelivery {
    attempt: u32,
    answer: oneshot::Sender<Answer>,
    holder: JoinHandle<Result<(), BrokerError>>,
}

enum Answer {
    Ack,
    Nack(Duration),
}

impl HeldDelivery {
    pub(crate) fn new(delivery: Delivery) -> Self {
        let (answer, answered) = oneshot::channel();
        Self { attempt: delivery.attempt, answer, holder: tokio::spawn(hold(delivery, answered)) }
    }

    /// The number of the delivery: 1 for the first.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Confirms that the event was handled.
    pub(crate) async fn ack(self) -> Result<(), BrokerError> {
        self.settle(Answer::Ack).await
    }

    /// Requests another delivery after a delay.
    pub(crate) async fn nack(self, delay: Duration) -> Result<(), BrokerError> {
        self.settle(Answer::Nack(delay)).await
    }

    async fn settle(self, answer: Answer) -> Result<(), BrokerError> {
        // The holder receives until it has an answer, so that this fails only if it panicked.
        let _ = self.answer.send(answer);
        self.holder.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an event could not be settled; the broker delivers it again");
            Ok(())
        })
    }
}

async fn hold(delivery: Delivery, mut answered: oneshot::Receiver<Answer>) -> Result<(), BrokerError> {
    let answer = tokio::select! {
        answer = &mut answered => answer,
        () = extend_regularly(&delivery) => answered.await,
    };
    match answer {
        Ok(Answer::Ack) => delivery.ack().await,
        Ok(Answer::Nack(delay)) => delivery.nack(delay).await,
        Err(_) => Ok(()),
    }
}

async fn extend_regularly(delivery: &Delivery) {
    let start = Instant::now();
    let period = delivery.visibility_timeout() / EXTENSIONS_PER_TIMEOUT;
    while start.elapsed() + period <= MAX_HOLD {
        tokio::time::sleep(period).await;
        if let Err(error) = delivery.extend().await {
            tracing::warn!(event = %delivery.event.id, %error, "the delivery of an event cannot be extended; retrying");
        }
    }
    tracing::warn!(event = %delivery.event.id, "an event has waited and run for {MAX_HOLD:?}; the broker delivers it again");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use bellwether_broker::{CloudEvent, Settlement};
    use jiff::Timestamp;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// Records what is done with a delivery, and when, in seconds.
    #[derive(Clone)]
    struct Recorder {
        start: Instant,
        calls: Arc<Mutex<Vec<(u64, String)>>>,
        is_unreachable: bool,
    }

    impl Recorder {
        fn new() -> Self {
            Self { start: Instant::now(), calls: Arc::default(), is_unreachable: false }
        }

        fn record(&self, call: String) {
            self.calls.lock().push((self.start.elapsed().as_secs(), call));
        }

        fn hold(&self) -> HeldDelivery {
            let event = CloudEvent::new("test", "t", json!({}), Timestamp::UNIX_EPOCH);
            HeldDelivery::new(Delivery::new(event, 2, Box::new(self.clone())))
        }

        fn calls(&self) -> Vec<String> {
            self.calls.lock().iter().map(|(second, call)| format!("{second} {call}")).collect()
        }
    }

    #[async_trait]
    impl Settlement for Recorder {
        async fn ack(self: Box<Self>) -> Result<(), BrokerError> {
            self.record("ack".into());
            Ok(())
        }

        async fn nack(self: Box<Self>, delay: Duration) -> Result<(), BrokerError> {
            self.record(format!("nack {delay:?}"));
            Ok(())
        }

        async fn extend(&self) -> Result<(), BrokerError> {
            self.record("extend".into());
            match self.is_unreachable {
                true => Err(BrokerError::Unreachable { address: "test".into(), cause: "cut".into() }),
                false => Ok(()),
            }
        }

        fn visibility_timeout(&self) -> Duration {
            Duration::from_secs(30)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn delivery_is_extended_until_it_is_settled() {
        for is_unreachable in [false, true] {
            let recorder = Recorder { is_unreachable, ..Recorder::new() };
            let held = recorder.hold();
            assert_eq!(held.attempt(), 2);
            tokio::time::sleep(Duration::from_secs(25)).await;
            held.ack().await.unwrap();
            tokio::time::sleep(Duration::from_secs(100)).await;
            assert_eq!(recorder.calls(), ["10 extend", "20 extend", "25 ack"]);
        }
        let recorder = Recorder::new();
        recorder.hold().nack(Duration::from_secs(7)).await.unwrap();
        assert_eq!(recorder.calls(), ["0 nack 7s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_delivery_is_not_extended() {
        let recorder = Recorder::new();
        let held = recorder.hold();
        tokio::time::sleep(Duration::from_secs(15)).await;
        drop(held);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(recorder.calls(), ["10 extend"]);
    }

    #[tokio::test(start_paused = true)]
    async fn extensions_are_bounded_and_the_delivery_can_be_settled_after_them() {
        let recorder = Recorder::new();
        let held = recorder.hold();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        held.ack().await.unwrap();
        let calls = recorder.calls();
        assert_eq!(calls.last().unwrap(), "3600 ack");
        // Timers are up to a millisecond late.
        assert!((85..=91).contains(&calls.len()), "an extension every 10 s for 15 min: {calls:?}");
    }
}
