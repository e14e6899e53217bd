//! One cycle of one worker: reads samples from Prometheus, transforms them, and sends them to the receiver while it reads. When
//! cycles run, and what is reported, is left to others.

use std::sync::Arc;

use bellwether_clock::Clock;
use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use super::client::{Client, HttpUrl, RequestError, Response, TimeLimit};
use super::config::{CollectorConfig, RecordingRule, Selector};
use super::exposition::{LabelValue, Parser};
use super::metrics::{CollectorMetrics, RequestType, SampleCounts};
use super::query::{self, QueryResult};
use super::remote_write::SeriesBuffer;
use super::sender::{SendError, Sender};
use super::transform::{Transform, Verdict};

/// The longest query string of one request; more selectors are sent in several requests.
const MAX_QUERY_BYTES: usize = 32 * 1024;
/// The largest result of a query, if the size limit is larger. It is parsed as a whole.
const MAX_QUERY_RESULT_BYTES: u64 = 32 * 1024 * 1024;

/// What a successful cycle has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarded {
    /// It has sent metrics.
    Sent,
    /// There were none.
    Nothing,
}

impl std::fmt::Display for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sent => "Cluster metrics sent successfully",
            Self::Nothing => "No metrics to send",
        })
    }
}

/// Why a cycle failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CycleError {
    /// Prometheus did not send its metrics.
    #[error("Failed to retrieve metrics: {0}")]
    Retrieve(String),
    /// Prometheus did not evaluate a recording rule.
    #[error("Failed to retrieve recording metrics: {0}")]
    RetrieveRecording(String),
    /// The receiver did not accept the metrics.
    #[error("Failed to send metrics: {0}")]
    Send(String),
}

impl From<SendError> for CycleError {
    fn from(error: SendError) -> Self {
        Self::Send(error.to_string())
    }
}

/// What a worker collects.
#[derive(Debug)]
pub(crate) enum Work {
    /// The series of selectors.
    Federate(Vec<Selector>),
    /// The results of queries.
    Evaluate(Vec<RecordingRule>),
}

/// A worker of a collector.
pub(crate) struct Worker {
    pub(crate) work: Work,
    pub(crate) config: Arc<CollectorConfig>,
    pub(crate) federate_client: Arc<Client>,
    pub(crate) query_client: Arc<Client>,
    pub(crate) sender: Sender,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: CollectorMetrics,
}

impl Worker {
    /// Runs one cycle, which ends at a time at the latest.
    pub(crate) async fn run_cycle(&mut self, end: Instant) -> (Result<Forwarded, CycleError>, SampleCounts) {
        self.sender.begin();
        let config = self.config.clone();
        let mut cycle = Cycle {
            transform: Transform::new(&config.labels, self.clock.now().as_millisecond()),
            series: SeriesBuffer::default(),
            counts: SampleCounts::default(),
            sender: &mut self.sender,
            metrics: &self.metrics,
            limit_bytes: config.limit_bytes,
            end,
        };
        let read = match &self.work {
            Work::Federate(selectors) => {
                cycle.federate(&self.federate_client, &config.source.federate, selectors).await
            }
            Work::Evaluate(rules) => cycle.evaluate(&self.query_client, &config.source.query, rules).await,
        };
        let outcome = match read {
            Ok(()) => cycle.sender.flush(end).await.map_err(CycleError::from),
            Err(error) => Err(error),
        };
        let SampleCounts { received, filtered } = cycle.counts;
        let forwarded = if received > filtered { Forwarded::Sent } else { Forwarded::Nothing };
        (outcome.map(|()| forwarded), cycle.counts)
    }
}

/// The state of one cycle.
struct Cycle<'a> {
    transform: Transform<'a>,
    series: SeriesBuffer,
    counts: SampleCounts,
    sender: &'a mut Sender,
    metrics: &'a CollectorMetrics,
    limit_bytes: u64,
    end: Instant,
}

impl Cycle<'_> {
    async fn federate(
        &mut self,
        client: &Client,
        url: &HttpUrl,
        selectors: &[Selector],
    ) -> Result<(), CycleError> {
        let failed = |error: &dyn std::fmt::Display| CycleError::Retrieve(error.to_string());
        let mut size = SizeLimit { limit: self.limit_bytes, left: self.limit_bytes };
        for query in federate_queries(selectors) {
            let uri = url.with_query(&query).ok_or_else(|| failed(&"the address is too long"))?;
            let mut response = self
                .get(client, uri, "text/plain;version=0.0.4", RequestType::Federate)
                .await
                .map_err(|error| failed(&error))?;
            size.check_announced(&response).map_err(|error| failed(&error))?;
            let mut parser = Parser::default();
            while let Some(chunk) =
                response.chunk(TimeLimit::of_cycle(self.end)).await.map_err(|error| failed(&error))?
            {
                size.take(&chunk, &response).map_err(|error| failed(&error))?;
                parser.feed(chunk);
                self.forward(&mut parser, response.url()).await?;
            }
            parser.finish().map_err(|error| failed(&format_args!("{}: {error}", response.url())))?;
        }
        Ok(())
    }

    /// Forwards the samples that are parsed so far.
    async fn forward(&mut self, parser: &mut Parser, url: &str) -> Result<(), CycleError> {
        let invalid = |error| CycleError::Retrieve(format!("{url}: {error}; check the address --from"));
        while let Some(sample) = parser.next_sample().map_err(invalid)? {
            let (value, timestamp) = (sample.value, sample.timestamp);
            let verdict =
                self.transform.apply(sample.name(), sample.labels(), value, timestamp, &mut self.series);
            self.forward_if_kept(verdict).await?;
        }
        Ok(())
    }

    async fn forward_if_kept(&mut self, verdict: Verdict) -> Result<(), CycleError> {
        self.counts.received += 1;
        if verdict != Verdict::Keep {
            self.counts.filtered += 1;
            self.metrics.count_dropped(verdict);
            return Ok(());
        }
        Ok(self.sender.push(self.series.series(), self.end).await?)
    }

    /// Evaluates rules one after the other. A failure counts only if no rule has a result.
    async fn evaluate(
        &mut self,
        client: &Client,
        url: &HttpUrl,
        rules: &[RecordingRule],
    ) -> Result<(), CycleError> {
        let mut first_failure = None;
        for rule in rules {
            let query = format!("query={}", encode(&rule.query));
            let results = match url.with_query(&query) {
                Some(uri) => self.query(client, uri).await,
                None => Err("the query is too long for a request".to_owned()),
            };
            match results {
                Ok(results) => self.forward_results(rule, &results).await?,
                Err(error) => {
                    tracing::warn!("recording rule {}: {error}", rule.name);
                    first_failure.get_or_insert_with(|| format!("rule {}: {error}", rule.name));
                }
            }
        }
        match first_failure {
            Some(failure) if self.counts.received == 0 => Err(CycleError::RetrieveRecording(failure)),
            _ => Ok(()),
        }
    }

    async fn forward_results(
        &mut self,
        rule: &RecordingRule,
        results: &[QueryResult],
    ) -> Result<(), CycleError> {
        for result in results {
            let labels = result.labels.iter().map(|(name, value)| (name.as_str(), LabelValue::plain(value)));
            let timestamp = Some(result.timestamp);
            let verdict = self.transform.apply(&rule.name, labels, result.value, timestamp, &mut self.series);
            self.forward_if_kept(verdict).await?;
        }
        Ok(())
    }

    async fn query(&self, client: &Client, uri: Uri) -> Result<Vec<QueryResult>, String> {
        let json = "application/json";
        let response = self.get(client, uri, json, RequestType::Recording).await;
        let mut response = response.map_err(|error| error.to_string())?;
        let limit = self.limit_bytes.min(MAX_QUERY_RESULT_BYTES);
        let mut size = SizeLimit { limit, left: limit };
        size.check_announced(&response).map_err(|error| error.to_string())?;
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk(TimeLimit::of_cycle(self.end)).await.map_err(|error| error.to_string())?
        {
            size.take(&chunk, &response).map_err(|error| error.to_string())?;
            body.extend_from_slice(&chunk);
        }
        query::parse_response(&body).map_err(|error| format!("{}: {error}", response.url()))
    }

    /// A successful response of Prometheus.
    async fn get(
        &self,
        client: &Client,
        uri: Uri,
        accept: &'static str,
        request_type: RequestType,
    ) -> Result<Response, RequestError> {
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = uri;
        let agent = concat!("bellwether/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(ACCEPT, http::HeaderValue::from_static(accept));
        request.headers_mut().insert(USER_AGENT, http::HeaderValue::from_static(agent));
        let answered = client.send(&request, TimeLimit::of_cycle(self.end)).await;
        self.metrics.count_request(request_type, answered.as_ref().ok().map(|response| response.status));
        let response = answered?;
        if response.status.is_success() { Ok(response) } else { Err(response.into_error().await) }
    }
}

/// How many bytes Prometheus may still send.
struct SizeLimit {
    limit: u64,
    left: u64,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the response of {url} is larger than the limit of {limit} bytes; raise scrapeSizeLimitBytes in the spec of the \
     ObservabilityAddon (--limit-bytes), or select fewer series"
)]
struct TooLarge {
    url: String,
    limit: u64,
}

impl SizeLimit {
    fn check_announced(&self, response: &Response) -> Result<(), TooLarge> {
        match response.announced_length() {
            Some(length) if length > self.left => Err(self.exceeded(response)),
            _ => Ok(()),
        }
    }

    fn take(&mut self, chunk: &Bytes, response: &Response) -> Result<(), TooLarge> {
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(length).ok_or_else(|| self.exceeded(response))?;
        Ok(())
    }

    fn exceeded(&self, response: &Response) -> TooLarge {
        TooLarge { url: response.url().to_owned(), limit: self.limit }
    }
}

/// The query strings of the requests that select all selectors.
fn federate_queries(selectors: &[Selector]) -> Vec<String> {
    let mut queries: Vec<String> = Vec::new();
    for selector in selectors {
        let parameter = format!("match%5B%5D={}", encode(selector.as_str()));
        match queries.last_mut() {
            Some(query) if query.len() + 1 + parameter.len() <= MAX_QUERY_BYTES => {
                query.push('&');
                query.push_str(&parameter);
            }
            _ => queries.push(parameter),
        }
    }
    queries
}

fn encode(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_encoded() {
        let selectors: Vec<Selector> =
            [r#"{__name__="up"}"#, "a:b"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(
            federate_queries(&selectors),
            ["match%5B%5D=%7B%5F%5Fname%5F%5F%3D%22up%22%7D&match%5B%5D=a%3Ab"]
        );
        assert!(federate_queries(&[]).is_empty());
    }

    #[test]
    fn many_selectors_are_sent_in_several_requests() {
        let selectors: Vec<Selector> =
            (0..2000).map(|index| format!("{{__name__=\"metric_{index}\"}}").parse().unwrap()).collect();
        let queries = federate_queries(&selectors);
        assert!(queries.len() > 1);
        assert!(queries.iter().all(|query| query.len() <= MAX_QUERY_BYTES));
        let parameters: usize = queries.iter().map(|query| query.matches("match%5B%5D=").count()).sum();
        assert_eq!(parameters, 2000);
    }
}
