//! Delays of redeliveries, by queues whose messages expire into the queue of the subscription. All messages of such a queue have
//! the same delay, because RabbitMQ expires messages only at the head of a queue.

use std::time::Duration;

use crate::MAX_NACK_DELAY;

/// The number of steps per doubling of the delay: a delay is rounded up by less than an eighth.
const STEPS_PER_OCTAVE: u64 = 8;
/// How long a queue for delays exists after its last use and the expiry of its messages.
pub(super) const IDLE_QUEUE_MARGIN: Duration = Duration::from_secs(600);

/// The next longer delay of about 180 values from 1 ms to an hour, so that the number of queues is bounded.
pub(super) fn round_up(delay: Duration) -> Duration {
    let delay = delay.min(MAX_NACK_DELAY);
    let mut millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    if Duration::from_millis(millis) < delay {
        millis += 1;
    }
    let mut step = 1;
    while millis.div_ceil(step) > 2 * STEPS_PER_OCTAVE {
        step *= 2;
    }
    Duration::from_millis(millis.div_ceil(step) * step)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn delay_is_never_shortened_and_lengthened_by_less_than_an_eighth() {
        let mut values = BTreeSet::new();
        for millis in (0..2_000).chain((2_000..=3_600_000).step_by(97)) {
            let delay = Duration::from_millis(millis);
            let rounded = round_up(delay);
            assert!(rounded >= delay, "{delay:?}: {rounded:?}");
            assert!(rounded.as_secs_f64() <= delay.as_secs_f64() * 1.125, "{delay:?}: {rounded:?}");
            values.insert(rounded);
        }
        assert!(values.len() < 200, "{}", values.len());
        assert_eq!(round_up(Duration::from_micros(1)), Duration::from_millis(1));
        assert_eq!(round_up(Duration::MAX), round_up(MAX_NACK_DELAY));
    }
}
