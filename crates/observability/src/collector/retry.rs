//! Decides what follows an attempt to send a batch: success, a retry, smaller batches, or failure. Pure; sending is left to
//! [`sender`](super::sender).

use std::time::Duration;

use bellwether_runtime::BackoffPolicy;
use http::StatusCode;
use jiff::Timestamp;

/// The delays between attempts.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(10) };
/// The shortest time in which a batch is retried, whatever the interval.
const MIN_RETRY_TIME: Duration = Duration::from_secs(15);

/// The result of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The receiver answered.
    Answered {
        /// The status.
        status: StatusCode,
        /// How long the receiver asks to wait.
        retry_after: Option<Duration>,
    },
    /// The receiver did not answer in time.
    TimedOut,
    /// There was no connection, or it was lost.
    Disconnected,
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The receiver has the batch.
    Done,
    /// Send it again after a delay.
    Retry(Duration),
    /// Send it in two halves: the receiver finds it too large.
    Split,
    /// Give up: a retry is useless.
    Fail,
    /// Give up: there is no time for another retry.
    OutOfTime,
}

/// How long a batch may be retried if cycles begin at an interval.
pub(crate) fn retry_time(interval: Duration) -> Duration {
    MIN_RETRY_TIME.max(interval / 2)
}

/// Decides what follows an attempt. `attempts` counts it and those before it; `jitter` is from 0 to 1.
pub(crate) fn decide(attempt: Attempt, attempts: u32, time_left: Duration, jitter: f64) -> Next {
    let backoff = BACKOFF.delay(attempts, jitter);
    let delay = match attempt {
        Attempt::Answered { status, retry_after } => match status {
            // Receivers answer 409 to samples that they already have, or that are older than those they have.
            StatusCode::CONFLICT => return Next::Done,
            status if status.is_success() => return Next::Done,
            StatusCode::PAYLOAD_TOO_LARGE => return Next::Split,
            StatusCode::NOT_IMPLEMENTED => return Next::Fail,
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                backoff.max(retry_after.unwrap_or_default())
            }
            _ => return Next::Fail,
        },
        Attempt::TimedOut => backoff,
        Attempt::Disconnected => return Next::Fail,
    };
    if delay < time_left { Next::Retry(delay) } else { Next::OutOfTime }
}

/// Parses a Retry-After header: a number of seconds, or a date.
pub(crate) fn parse_retry_after(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(header).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn answered(status: u16, retry_after: Option<u64>) -> Attempt {
        let status = StatusCode::from_u16(status).unwrap();
        Attempt::Answered { status, retry_after: retry_after.map(Duration::from_secs) }
    }

    fn millis(millis: u64) -> Next {
        Next::Retry(Duration::from_millis(millis))
    }

    #[rstest]
    #[case::ok(answered(200, None), Next::Done)]
    #[case::no_content(answered(204, None), Next::Done)]
    #[case::conflict_is_a_success(answered(409, None), Next::Done)]
    #[case::redirects_are_not_followed(answered(307, None), Next::Fail)]
    #[case::bad_request(answered(400, None), Next::Fail)]
    #[case::unauthorized(answered(401, None), Next::Fail)]
    #[case::forbidden(answered(403, None), Next::Fail)]
    #[case::not_found(answered(404, None), Next::Fail)]
    #[case::too_large(answered(413, None), Next::Split)]
    #[case::too_many_requests(answered(429, None), millis(500))]
    #[case::too_many_requests_for_a_while(answered(429, Some(7)), millis(7000))]
    #[case::a_short_retry_after_does_not_shorten_the_backoff(answered(429, Some(0)), millis(500))]
    #[case::internal_error(answered(500, None), millis(500))]
    #[case::not_implemented(answered(501, None), Next::Fail)]
    #[case::bad_gateway(answered(502, None), millis(500))]
    #[case::unavailable_for_a_while(answered(503, Some(10)), millis(10_000))]
    #[case::the_receiver_asks_for_too_long(answered(503, Some(60)), Next::OutOfTime)]
    #[case::timeout(Attempt::TimedOut, millis(500))]
    #[case::refused_or_reset(Attempt::Disconnected, Next::Fail)]
    fn first_attempt(#[case] attempt: Attempt, #[case] expected: Next) {
        assert_eq!(decide(attempt, 1, MINUTE, 0.0), expected);
    }

    #[rstest]
    #[case(2, 1000)]
    #[case(4, 4000)]
    #[case(6, 10_000)]
    #[case(u32::MAX, 10_000)]
    fn delay_doubles_up_to_ten_seconds(#[case] attempts: u32, #[case] delay: u64) {
        assert_eq!(decide(answered(500, None), attempts, MINUTE, 0.0), millis(delay));
    }

    #[test]
    fn retries_end_when_the_time_is_over() {
        let half_a_second = Duration::from_millis(500);
        assert_eq!(decide(Attempt::TimedOut, 1, half_a_second, 0.0), Next::OutOfTime);
        assert_eq!(decide(Attempt::TimedOut, 1, Duration::ZERO, 1.0), Next::OutOfTime);
        assert_eq!(decide(answered(200, None), 9, Duration::ZERO, 0.0), Next::Done);
    }

    #[rstest]
    #[case(1, 15)]
    #[case(30, 15)]
    #[case(60, 30)]
    #[case(300, 150)]
    fn retry_time_is_half_the_interval_and_at_least_15_seconds(#[case] interval: u64, #[case] expected: u64) {
        assert_eq!(retry_time(Duration::from_secs(interval)), Duration::from_secs(expected));
    }

    #[rstest]
    #[case("120", Some(120))]
    #[case(" 0 ", Some(0))]
    #[case("Wed, 21 Oct 2015 07:28:30 GMT", Some(30))]
    #[case("Wed, 21 Oct 2015 07:00:00 GMT", Some(0))]
    #[case("soon", None)]
    #[case("-1", None)]
    fn retry_after_is_seconds_or_a_date(#[case] header: &str, #[case] expected: Option<u64>) {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        assert_eq!(parse_retry_after(header, now), expected.map(Duration::from_secs));
    }
}
