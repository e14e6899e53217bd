//! Clients that simulate the crash of their process at one of its writes: just before the server receives the
//! write, or just after the server has executed it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Method, Request};
use kube::client::Body;

/// When a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// The server does not receive the write.
    BeforeWrite,
    /// The server has executed the write, and the process does not receive the response.
    AfterWrite,
}

/// A crash of a process at its n-th write. All clients of the process share it: after the crash none of their
/// requests is sent or gets a response.
#[derive(Clone)]
pub struct CrashAtWrite {
    writes_left: Arc<AtomicUsize>,
    crashed: Arc<AtomicBool>,
    point: CrashPoint,
}

impl CrashAtWrite {
    /// A crash at the write with this number, counted from 1 over all clients of the process.
    pub fn new(writes: usize, point: CrashPoint) -> Self {
        Self { writes_left: Arc::new(AtomicUsize::new(writes)), crashed: Arc::default(), point }
    }

    /// Whether the process has crashed.
    pub fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::Relaxed)
    }

    /// Wraps a client of the process.
    pub fn wrap(&self, client: kube::Client) -> kube::Client {
        let crash = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (crash, client) = (crash.clone(), client.clone());
            async move {
                if crash.has_crashed() {
                    std::future::pending::<()>().await;
                }
                let last =
                    request.method() != Method::GET && crash.writes_left.fetch_sub(1, Ordering::Relaxed) == 1;
                if last {
                    crash.crashed.store(true, Ordering::Relaxed);
                    if crash.point == CrashPoint::AfterWrite {
                        let _ = client.send(request).await;
                    }
                    return std::future::pending().await;
                }
                client.send(request).await
            }
        });
        kube::Client::new(service, "default")
    }
}
