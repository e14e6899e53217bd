//! The body of every answer: bytes at hand, a list spliced from stored bytes, or a stream of watch frames.
//! It does not know HTTP versions; hyper and the in-process client both poll it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http_body::{Frame, SizeHint};

/// The body of an answer.
pub enum Body {
    /// Chunks that are all at hand.
    Chunks(VecDeque<Bytes>),
    /// Chunks that come over time: a watch.
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Self::Chunks(VecDeque::new())
    }

    /// A body that arrives chunk by chunk until the stream ends.
    pub fn stream(stream: impl futures::Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(stream.boxed())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Chunks(VecDeque::from([bytes]))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Chunks(chunks) => Poll::Ready(chunks.pop_front().map(|chunk| Ok(Frame::data(chunk)))),
            Self::Stream(stream) => {
                stream.poll_next_unpin(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Chunks(chunks) if chunks.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Chunks(chunks) => SizeHint::with_exact(chunks.iter().map(|chunk| chunk.len() as u64).sum()),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
